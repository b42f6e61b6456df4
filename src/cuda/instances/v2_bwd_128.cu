// SPDX-License-Identifier: BSD-3-Clause
#include "cuda/sm80/instance.cuh"

template const void* volley::cuda::v2::backward_kernel_of<128>(int row);
