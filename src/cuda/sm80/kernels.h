// SPDX-License-Identifier: BSD-3-Clause
//
// The V2 kernels, by the addresses of their entries. Plain C++.
#pragma once

#include "cuda/config.h"

namespace volley::cuda::v2 {

const void* forward_kernel(int row);   // of forward_config(row)
const void* backward_kernel(int row);  // of backward_config(row)
const void* pack_kernel();
const void* delta_kernel(Element element);
const void* dq_kernel();
const void* query_kernel(int row);  // of query_config(row)
const void* dbias_kernel();
const void* dsink_kernel();

// The parts of the former two that one file of instances/ has: rows of shapes whose tile has kD
// columns.
template <int kD>
const void* forward_kernel_of(int row);
template <int kD>
const void* backward_kernel_of(int row);

}  // namespace volley::cuda::v2
