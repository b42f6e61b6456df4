// SPDX-License-Identifier: BSD-3-Clause
//
// What every function of the C ABI shares: no exception leaves, a Status becomes a volley_error,
// text is cut to the caller's buffer.
#pragma once

#include <algorithm>
#include <cstring>
#include <exception>
#include <new>
#include <string>

#include "status.h"

namespace volley::core {

inline int32_t answer(const Status& status, volley_error* error) {
  if (error != nullptr) {
    error->code = status.code;
    error->reason = status.reason;
    const size_t length = std::min(status.message.size(), sizeof error->message - 1);
    std::memcpy(error->message, status.message.data(), length);
    error->message[length] = '\0';
  }
  return status.code;
}

// Calls `body`, which returns a Status, and answers it.
template <class Body>
int32_t guarded(volley_error* error, Body&& body) noexcept {
  try {
    return answer(body(), error);
  } catch (const std::bad_alloc&) {
    // Without the allocation that a Status' message might need.
    if (error != nullptr) {
      *error = {VOLLEY_OUT_OF_MEMORY, VOLLEY_REASON_NONE, "host memory is exhausted"};
    }
    return VOLLEY_OUT_OF_MEMORY;
  } catch (const std::exception& exception) {
    if (error != nullptr) {
      *error = {VOLLEY_INTERNAL, VOLLEY_REASON_NONE, ""};
      std::strncpy(error->message, exception.what(), sizeof error->message - 1);
    }
    return VOLLEY_INTERNAL;
  } catch (...) {
    if (error != nullptr) *error = {VOLLEY_INTERNAL, VOLLEY_REASON_NONE, "unknown exception"};
    return VOLLEY_INTERNAL;
  }
}

// Copies what fits, always with a final 0 if capacity > 0; returns the full length without it.
inline uint64_t copy_text(const std::string& text, char* buffer, uint64_t capacity) {
  if (buffer != nullptr && capacity > 0) {
    const uint64_t length = std::min<uint64_t>(text.size(), capacity - 1);
    std::memcpy(buffer, text.data(), length);
    buffer[length] = '\0';
  }
  return text.size();
}

}  // namespace volley::core
