// SPDX-License-Identifier: BSD-3-Clause
//
// Geometry: the tensors of a call described by numbers alone, without data, for `volley plan` and
// `volley bench`.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "flags.h"
#include "roles.h"
#include "volley/volley.h"

namespace volley::cli {

// -1: as its partner (sk as sq, hk as hq, dv as d).
struct GeometryFlags {
  std::string dtype = "bf16";
  std::string o_dtype;  // empty: as dtype, bf16 for e4m3
  int64_t b = 1;
  int64_t sq = 4096;
  int64_t sk = -1;
  int64_t hq = 16;
  int64_t hk = -1;
  int64_t d = 128;
  int64_t dv = -1;
  int64_t page = 0;
  int64_t padding = 0;    // elements between rows
  int64_t alignment = 0;  // bytes of the base addresses; 0: 16
  bool backward = false;
  bool varlen = false;
  bool used_lengths = false;
  bool sink = false;
  bool bias = false;
  bool alibi = false;
  bool mask = false;
  bool descale = false;
  bool dropout = false;
};

// tensors holds what the problem's pointers point to: keep it where it is.
struct Geometry {
  std::array<volley_tensor, core::kRoleCount> tensors{};
  volley_problem problem;

  Geometry(const GeometryFlags& flags, int32_t device_type);
  Geometry(const Geometry&) = delete;
  Geometry& operator=(const Geometry&) = delete;

  const GeometryFlags& flags() const { return flags_; }  // without -1

 private:
  using Shape = std::initializer_list<int64_t>;
  volley_tensor& add(core::Role role, int32_t dtype, Shape shape);
  void add_operand(core::Role role, int32_t dtype, bool packed, Shape shape);
  void add_lengths();
  void add_scores();
  void add_descales();

  const GeometryFlags flags_;
  const int32_t device_type_;
};

}  // namespace volley::cli
