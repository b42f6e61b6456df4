// SPDX-License-Identifier: BSD-3-Clause
//
// The sm80 backend: FlashAttention-2's design, for what the Hopper kernels cannot take and for GPUs
// from Ampere on. Planning: sm80_plan.cpp. Running: sm80_run.cpp.
#include "backend.h"
#include "cuda/sm80_plan.h"
#if VOLLEY_WITH_CUDA
#  include "cuda/sm80_run.h"
#endif

namespace volley::core {

Backend sm80_backend() {
  Backend backend{
      VOLLEY_BACKEND_SM80, VOLLEY_DEVICE_CUDA, false, cuda::sm80_plan, nullptr, nullptr};
#if VOLLEY_WITH_CUDA
  backend.built = true;
  backend.prepare = cuda::sm80_prepare;
  backend.run = cuda::sm80_run;
#endif
  return backend;
}

}  // namespace volley::core
