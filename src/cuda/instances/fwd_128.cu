// SPDX-License-Identifier: BSD-3-Clause
#include "cuda/sm90/instance.cuh"

template const void* volley::cuda::fwd_kernel<volley::cuda::kBf16D128Full>();
template const void* volley::cuda::fwd_kernel<volley::cuda::kBf16D128Causal>();
