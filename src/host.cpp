// SPDX-License-Identifier: BSD-3-Clause
#include "host.h"

#include <sched.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <fstream>
#include <thread>

namespace volley::core {
namespace {

// The value of the first line "key ... : value" or "key: value" of a file in /proc.
std::string proc_value(const char* path, const std::string& key) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    const size_t colon = line.find(':');
    if (line.rfind(key, 0) != 0 || colon == line.npos) continue;
    const size_t begin = line.find_first_not_of(" \t", colon + 1);
    return begin == line.npos ? "" : line.substr(begin);
  }
  return "";
}

std::vector<std::string> cpu_features() {
  std::vector<std::string> features;
#if defined(__x86_64__)
  __builtin_cpu_init();
  const auto add = [&](bool supported, const char* name) {
    if (supported) features.emplace_back(name);
  };
  add(__builtin_cpu_supports("avx"), "avx");
  add(__builtin_cpu_supports("f16c"), "f16c");
  add(__builtin_cpu_supports("fma"), "fma");
  add(__builtin_cpu_supports("avx2"), "avx2");
  add(__builtin_cpu_supports("avx512f"), "avx512f");
  add(__builtin_cpu_supports("avx512bw"), "avx512bw");
  add(__builtin_cpu_supports("avx512dq"), "avx512dq");
  add(__builtin_cpu_supports("avx512vl"), "avx512vl");
  add(__builtin_cpu_supports("avx512bf16"), "avx512bf16");
#elif defined(__aarch64__)
  features.emplace_back("neon");  // every 64-bit Arm has it
#endif
  return features;
}

int32_t usable_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) == 0) return CPU_COUNT(&set);
  return static_cast<int32_t>(std::thread::hardware_concurrency());  // above 1024 cores
}

}  // namespace

Host read_host() {
  Host host;
  host.cpu_model = proc_value("/proc/cpuinfo", "model name");
  if (host.cpu_model.empty()) host.cpu_model = "unknown";
  utsname system{};
  if (uname(&system) == 0) host.architecture = system.machine;
  host.features = cpu_features();
  host.cores = usable_cores();
  const auto page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  host.memory_bytes = page * static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES));
  // "MemAvailable: 123 kB" counts caches that the system would give up.
  const std::string available = proc_value("/proc/meminfo", "MemAvailable");
  host.free_bytes = available.empty() ? page * static_cast<uint64_t>(sysconf(_SC_AVPHYS_PAGES))
                                      : std::strtoull(available.c_str(), nullptr, 10) * 1024;
  return host;
}

}  // namespace volley::core
