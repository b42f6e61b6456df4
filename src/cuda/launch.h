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

// The extents of q (or k and v) in memory; batch is 1 where sequences are packed.
struct Extents {
  i64 batch;
  i64 rows;
};

// What a plan knows of a forward call. Tensors (b, s, h, d) by strides; checked by the plan. Any
// extent may be 0.
struct FwdGeometry {
  Strides q_stride;
  Strides k_stride;
  Strides v_stride;
  Strides o_stride;
  Strides lse_stride;
  Extents q;
  Extents k;
  i64 b;   // sequences
  i64 sq;  // queries of a sequence, at most
  i64 sk;
  i64 hq;
  i64 hk;
  i64 d;
  i64 dv;
  i64 left;  // query i sees key j iff -left <= j - i - offset <= right; -1 is open
  i64 right;
  i64 offset;     // added to the next
  bool relative;  // offset is keys less queries, of each sequence
  double scale;
  double softcap;
  bool o_is_f32;
  SinkType sink;
  i64 sink_stride;
};

// What a run adds; null: absent.
struct FwdAddresses {
  const void* q;
  const void* k;
  const void* v;
  void* o;
  float* lse;
  const void* sink;
  const int* cu_q;
  const int* cu_k;
  const int* used_q;
  const int* used_k;
};

struct FwdLaunch {
  const void* kernel;
  int grid;   // 0: nothing to do
  int tiles;  // at most, of one launch: there may have to be several
  int threads;
  int shared;        // bytes
  bool has_keys;     // k and v may be read
  bool checks;       // runs look at the lengths first (check_lengths.h)
  FwdParams params;  // all but addresses
  OperandMap q;
  OperandMap k;
  OperandMap v;
};

// The launch of a config's kernel on at most `sms` SMs.
FwdLaunch make_forward(const FwdConfig& config, const void* kernel, const FwdGeometry& geometry,
                       int sms);

// Loads the kernel into the current device, so that the launch can be captured.
core::Status load_forward(const FwdLaunch& launch);

// Enqueues the launch on the current device.
core::Status launch_forward(const FwdLaunch& launch, const FwdAddresses& at, void* stream);

}  // namespace volley::cuda
