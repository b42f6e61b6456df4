// SPDX-License-Identifier: BSD-3-Clause
//
// Which kernels there are, which run on this CPU, and which one VOLLEY_CPU asks for.
#include "cpu/kernel/choose.h"

#include <cstdlib>
#include <string>
#include <string_view>

namespace volley::core {
namespace {

constexpr const Kernel* kKernels[] = {
    &kPortableKernel,
#ifdef __x86_64__
    &kAvx2Kernel,
    &kAvx512Kernel,
#endif
};

#ifdef __x86_64__
bool has_avx2() {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
         __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2");
}
#endif

}  // namespace

std::span<const Kernel* const> kernels() { return kKernels; }

// What CMakeLists.txt compiles each kernel for.
bool runs_here(const Kernel& kernel) {
#ifdef __x86_64__
  if (&kernel == &kAvx2Kernel) {
    return has_avx2();
  }
  if (&kernel == &kAvx512Kernel) {
    return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  }
#endif
  return &kernel == &kPortableKernel;
}

Status choose_kernel(int32_t* index) {
  const char* variable = std::getenv("VOLLEY_CPU");
  const std::string_view forced = variable == nullptr ? "" : variable;
  std::string names;
  *index = -1;
  for (size_t i = 0; i < kernels().size(); ++i) {
    const Kernel& kernel = *kernels()[i];
    if (!runs_here(kernel)) continue;
    names += names.empty() ? "" : ", ";
    names += kernel.name;
    if (forced.empty() || forced == kernel.name) *index = static_cast<int32_t>(i);
  }
  if (*index >= 0) return {};
  return invalid(VOLLEY_REASON_OPTION, "VOLLEY_CPU is \"{}\"; this machine runs {}", forced, names);
}

}  // namespace volley::core
