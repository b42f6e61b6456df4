// SPDX-License-Identifier: BSD-3-Clause
//
// Variable: an environment variable that is set while this object lives.
#pragma once

#include <cstdlib>

namespace volley {

class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) { setenv(name, value, 1); }
  ~Variable() { unsetenv(name_); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const char* name_;
};

}  // namespace volley
