// SPDX-License-Identifier: BSD-3-Clause
//
// See workload.h.
#include "workload.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "dtype.h"
#include "measure.h"
#include "random.h"

namespace volley::cli {
namespace {

using check::HostTensor;
using check::Random;
using core::Role;

// Drawing each element would take longer than what is to be timed. The number is a prime, so that
// rows do not repeat.
const std::vector<double>& normal_values() {
  static const std::vector<double> values = [] {
    Random random(1);
    std::vector<double> drawn(65521);
    for (double& value : drawn) value = random.normal();
    return drawn;
  }();
  return values;
}

void fill_normal(HostTensor* tensor, size_t first) {
  const std::vector<double>& values = normal_values();
  size_t at = first % values.size();
  for (int64_t i = 0; i < tensor->size(); ++i) {
    tensor->set_flat(i, values[at]);
    at = at + 1 == values.size() ? 0 : at + 1;
  }
}

void fill_multiples(HostTensor* tensor, int64_t step) {
  for (int64_t i = 0; i < tensor->size(); ++i) tensor->set_flat(i, static_cast<double>(i * step));
}

void fill_pages(HostTensor* tensor) {
  std::vector<double> pages(static_cast<size_t>(tensor->size()));
  std::iota(pages.begin(), pages.end(), 0.0);
  Random random(2);
  for (size_t i = pages.size(); i > 1; --i) {
    std::swap(pages[i - 1], pages[static_cast<size_t>(random.integer(0, int64_t(i) - 1))]);
  }
  for (size_t i = 0; i < pages.size(); ++i) tensor->set_flat(static_cast<int64_t>(i), pages[i]);
}

void fill(Role role, const GeometryFlags& flags, HostTensor* tensor) {
  switch (role) {
    case Role::kCuSeqlensQ: return fill_multiples(tensor, flags.sq);
    case Role::kCuSeqlensK: return fill_multiples(tensor, flags.sk);
    case Role::kSequsedQ: return tensor->fill(static_cast<double>(flags.sq));
    case Role::kSequsedK: return tensor->fill(static_cast<double>(flags.sk));
    case Role::kPageTable: return fill_pages(tensor);
    case Role::kMask:
    case Role::kDropoutSeed:
    case Role::kQDescale:
    case Role::kKDescale:
    case Role::kVDescale: return tensor->fill(1);
    case Role::kAlibiSlopes: return tensor->fill(0.01);
    default: return fill_normal(tensor, static_cast<size_t>(role) * 7919);
  }
}

bool is_causal(const volley_problem& options) {
  return options.causal != 0 && options.window_left < 0;
}

}  // namespace

Tensors make_tensors(const Geometry& geometry) {
  Tensors tensors;
  for (const core::RoleInfo& role : core::kRoles) {
    const auto i = static_cast<size_t>(role.role);
    const volley_tensor& view = geometry.tensors[i];
    if (view.dtype == 0) continue;
    const std::vector<int64_t> shape(view.shape, view.shape + view.ndim);
    const std::vector<int64_t> stride(view.stride, view.stride + view.ndim);
    const int64_t element = std::max<int64_t>(core::dtype_size(view.dtype), 1);
    const bool bent = view.alignment > 0 && view.alignment < 128;
    tensors[i] = HostTensor(view.dtype, shape, stride, bent ? view.alignment / element : 0);
    if (role.written == core::Written::kNever) fill(role.role, geometry.flags(), &tensors[i]);
  }
  return tensors;
}

double counted_pairs(const GeometryFlags& flags, const volley_problem& options) {
  check::Case c;
  c.b = flags.b, c.sq = flags.sq, c.sk = flags.sk, c.hq = flags.hq;
  if (is_causal(options) && flags.sq == flags.sk && options.mask_offset == 0) {
    return visible_pairs(c) / 2;
  }
  c.causal = options.causal != 0;
  c.left = options.window_left, c.right = options.window_right;
  c.alignment = options.mask_alignment, c.offset = options.mask_offset;
  return visible_pairs(c);
}

std::string variant_of(const GeometryFlags& flags, const volley_problem& options) {
  std::string text;
  const auto add = [&](bool differs, const std::string& words) {
    if (differs) text += (text.empty() ? "" : ", ") + words;
  };
  const bool window = options.window_left >= 0 || options.window_right >= 0;
  add(window, fmt::format("window {} {}", options.window_left, options.window_right));
  add(options.mask_alignment == VOLLEY_ALIGN_TOP_LEFT, "top-left");
  add(options.mask_alignment == VOLLEY_ALIGN_EXPLICIT,
      fmt::format("offset {}", options.mask_offset));
  add(flags.hq != flags.hk, fmt::format("gqa {}", flags.hk > 0 ? flags.hq / flags.hk : 0));
  add(flags.varlen, "varlen");
  add(flags.used_lengths, "used lengths");
  add(flags.page > 0, fmt::format("pages of {}", flags.page));
  add(flags.padding > 0, fmt::format("row padding {}", flags.padding));
  add(flags.alignment > 0 && flags.alignment < 16, "misaligned");
  add(options.softcap > 0, fmt::format("softcap {:g}", options.softcap));
  add(flags.sink, "sink");
  add(flags.bias, "bias");
  add(flags.alibi, "alibi");
  add(flags.mask, "mask");
  add(flags.descale, "descale");
  add(options.dropout_p > 0, fmt::format("dropout {:g}", options.dropout_p));
  add(!flags.o_dtype.empty() && flags.o_dtype != flags.dtype, flags.o_dtype + " output");
  add(options.max_sms > 0, fmt::format("{} sms", options.max_sms));
  return text.empty() ? "plain" : text;
}

}  // namespace volley::cli
