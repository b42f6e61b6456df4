// SPDX-License-Identifier: BSD-3-Clause
//
// The host side of the kernels. A plan makes a FwdLaunch of its geometry once; each run puts
// addresses into a copy of its parameters and enqueues it. Nothing here allocates, synchronises or
// knows of plans; sm90_run.cpp does the latter.
#pragma once

#include "cuda/config.h"
#include "cuda/params.h"
#include "cuda/tensor_map.h"
#include "status.h"

namespace volley::cuda {

// What a plan knows of a forward call. Tensors (b, s, h, d) by strides; checked by the plan. Any
// extent may be 0.
struct FwdGeometry {
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

// What a run adds.
struct FwdAddresses {
  const void* q;
  const void* k;
  const void* v;
  void* o;
  float* lse;  // (b, hq, sq), or null
};

struct FwdLaunch {
  const void* kernel;
  int grid;  // 0: nothing to do
  int threads;
  int shared;        // bytes
  bool loads;        // the kernel reads q, k and v
  FwdParams params;  // all but addresses
  OperandMap q;
  OperandMap k;
  OperandMap v;
};

// The launch of a row's kernel, or of the fill kernel where there are no keys, on at most `sms`
// SMs.
FwdLaunch make_forward(const FwdConfig& config, const void* kernel, const FwdGeometry& geometry,
                       int sms);

// Loads the kernel into the current device, so that the launch can be captured.
core::Status load_forward(const FwdLaunch& launch);

// Enqueues the launch on the current device.
core::Status launch_forward(const FwdLaunch& launch, const FwdAddresses& at, void* stream);

}  // namespace volley::cuda
