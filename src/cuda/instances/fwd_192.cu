// SPDX-License-Identifier: BSD-3-Clause
#include "cuda/sm90/instance.cuh"

template const void* volley::cuda::fwd_kernel<192, 192>(int row);
