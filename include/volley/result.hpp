// SPDX-License-Identifier: BSD-3-Clause
//
// result.hpp: Error, what a failed call says, and Result, a value or an Error in the manner of the
// std::expected of later standards. Part of volley.hpp, which includes it.
#ifndef VOLLEY_RESULT_HPP
#define VOLLEY_RESULT_HPP

#include <volley/volley.h>

#include <cassert>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <variant>

namespace volley {

struct Error {
  std::int32_t code = VOLLEY_OK;             // VOLLEY_INVALID_ARGUMENT, ...
  std::int32_t reason = VOLLEY_REASON_NONE;  // VOLLEY_REASON_*
  std::string message;                       // one sentence: which argument, found, wanted

  const char* code_name() const { return volley_status_name(code); }
  const char* reason_name() const { return volley_reason_name(reason); }
};

// What Result::value() throws when there is no value.
class BadResult : public std::runtime_error {
 public:
  explicit BadResult(Error error) : std::runtime_error(error.message), error_(std::move(error)) {}
  const Error& error() const { return error_; }

 private:
  Error error_;
};

// A value or an Error.
template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : content_(std::in_place_index<0>, std::move(value)) {}
  Result(Error error) : content_(std::in_place_index<1>, std::move(error)) {}

  bool has_value() const { return content_.index() == 0; }
  explicit operator bool() const { return has_value(); }

  T& value() & { return checked(), *std::get_if<0>(&content_); }
  const T& value() const& { return checked(), *std::get_if<0>(&content_); }
  T&& value() && { return checked(), std::move(*std::get_if<0>(&content_)); }
  T& operator*() & { return *std::get_if<0>(&content_); }  // has_value() is the caller's promise
  const T& operator*() const& { return *std::get_if<0>(&content_); }
  T* operator->() { return std::get_if<0>(&content_); }
  const T* operator->() const { return std::get_if<0>(&content_); }

  // Only when there is no value.
  const Error& error() const {
    assert(!has_value());
    return *std::get_if<1>(&content_);
  }

 private:
  void checked() const {
    if (!has_value()) throw BadResult(error());
  }
  std::variant<T, Error> content_;
};

template <>
class [[nodiscard]] Result<void> {
 public:
  Result() = default;
  Result(Error error) : error_(std::move(error)) {}

  bool has_value() const { return !error_.has_value(); }
  explicit operator bool() const { return has_value(); }
  void value() const {
    if (error_) throw BadResult(*error_);
  }
  const Error& error() const {
    assert(!has_value());
    return *error_;
  }

 private:
  std::optional<Error> error_;
};

}  // namespace volley

#endif  // VOLLEY_RESULT_HPP
