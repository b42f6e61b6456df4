// SPDX-License-Identifier: BSD-3-Clause
#include "backend.h"

#include <algorithm>
#include <vector>

namespace volley::core {
namespace {

const std::vector<Backend>& table() {
  static const std::vector<Backend> backends = {sm90_backend(), sm80_backend(), cpu_backend(),
                                                reference_backend()};
  return backends;
}

}  // namespace

std::span<const Backend> backends() { return table(); }

const Backend& backend_of(int32_t id) {
  return *std::find_if(table().begin(), table().end(),
                       [&](const Backend& backend) { return backend.id == id; });
}

}  // namespace volley::core
