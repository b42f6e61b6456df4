// SPDX-License-Identifier: BSD-3-Clause
//
// The launches beside the backward's main kernel: dq and dbias by query tiles, dsink. Part of
// sm80_launch.h. Pure, plain C++.
#pragma once

#include "cuda/sm80_operands.h"

namespace volley::cuda::v2 {

// Does a problem want dq in a fixed order, or dbias, which the main kernel does not compute?
bool takes_query_tiles(const core::Problem& problem);

// Is dbias summed over queries? Those of different tiles are added in no fixed order.
bool sums_dbias_over_queries(const core::Problem& problem);

struct DbiasLaunch {
  Grid grid{};           // no blocks: dbias has no elements, or is added to where it lies
  DbiasParams params{};  // all but addresses
  BiasGradient target{};
  uint64_t offset = 0;  // of the sums, in the workspace
  uint64_t bytes = 0;   // of the sums; 0: there are none
};
DbiasLaunch make_dbias(const core::Problem& problem, Layout* layout);

struct QueryLaunch {
  int row = -1;
  Grid grid{};                   // no blocks: dq is not computed by query tiles, or is empty
  QueryGradientParams params{};  // all but addresses
};
// `main` knows where the operands are.
QueryLaunch make_query_gradients(const core::Problem& problem, const Config& config,
                                 const BackwardParams& main, const DbiasLaunch& dbias);

struct DsinkLaunch {
  Grid grid{};  // no blocks: no dsink
  DsinkParams params{};
};
DsinkLaunch make_dsink(const core::Problem& problem);

// What comes after delta. `at` has the operands' addresses where the kernels can read them.
core::Status enqueue_dbias_start(const DbiasLaunch& launch, const core::Buffers& at,
                                 core::Workspace workspace, Queue& queue);
core::Status enqueue_query_gradients(const QueryLaunch& launch, const DbiasLaunch& dbias,
                                     const core::Buffers& at, const float* delta,
                                     core::Workspace workspace, Queue& queue);
core::Status enqueue_dsink(const DsinkLaunch& launch, const core::Buffers& at, const float* delta,
                           Queue& queue);

}  // namespace volley::cuda::v2
