// SPDX-License-Identifier: BSD-3-Clause
//
// The host side of the kernels: from a call in plain numbers to a launch on a stream. Nothing here
// allocates, synchronises or knows of plans; sm90_backend.cpp does the latter.
#pragma once

#include "cuda/config.h"
#include "cuda/params.h"
#include "status.h"

namespace volley::cuda {

// One forward call. Tensors (b, s, h, d) by strides; checked by the plan.
struct FwdCall {
  const void* q;
  const void* k;
  const void* v;
  void* o;
  float* lse;  // (b, hq, sq), or null
  Strides q_stride;
  Strides k_stride;
  Strides v_stride;
  Strides o_stride;
  Strides lse_stride;
  i64 b;
  i64 sq;
  i64 sk;
  i64 hq;
  i64 hk;
  i64 offset;  // causal: query i sees key j iff j <= i + offset
  double scale;
};

// Loads what launch_forward may need into the current device, so that it can be captured.
core::Status load_forward(const FwdConfig& config, const void* kernel);

// Enqueues the forward on the current device. Any extent may be 0.
core::Status launch_forward(const FwdConfig& config, const void* kernel, const FwdCall& call,
                            int sms, void* stream);

}  // namespace volley::cuda
