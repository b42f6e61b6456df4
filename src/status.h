// SPDX-License-Identifier: BSD-3-Clause
//
// The result of a step inside the library: a code, a reason and one sentence. It becomes a
// volley_error at the ABI (abi.cpp). Nothing inside throws on purpose.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "fmt.h"
#include "volley/volley.h"

namespace volley::core {

struct [[nodiscard]] Status {
  int32_t code = VOLLEY_OK;
  int32_t reason = VOLLEY_REASON_NONE;
  std::string message;

  bool ok() const { return code == VOLLEY_OK; }
};

template <class... Args>
Status make_status(int32_t code, int32_t reason, fmt::format_string<Args...> format,
                   Args&&... args) {
  return {code, reason, fmt::format(format, std::forward<Args>(args)...)};
}

template <class... Args>
Status invalid(int32_t reason, fmt::format_string<Args...> format, Args&&... args) {
  return make_status(VOLLEY_INVALID_ARGUMENT, reason, format, std::forward<Args>(args)...);
}

template <class... Args>
Status not_offered(int32_t reason, fmt::format_string<Args...> format, Args&&... args) {
  return make_status(VOLLEY_NOT_OFFERED, reason, format, std::forward<Args>(args)...);
}

}  // namespace volley::core

// Returns from the calling function with the Status of `expression` unless it is OK.
#define VOLLEY_TRY(expression)                                                        \
  do {                                                                                \
    if (::volley::core::Status status_ = (expression); !status_.ok()) return status_; \
  } while (false)
