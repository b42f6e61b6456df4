// SPDX-License-Identifier: BSD-3-Clause
#include "bits.h"

#include <fmt/format.h>

#include <bit>

namespace volley::check {
namespace {

Case base_case(int32_t dtype) {
  Case c;
  c.dtype = dtype;
  c.b = 3;
  c.sq = 70;
  c.sk = 150;
  c.set_heads(4, 2);
  c.causal = true;
  return c;
}

bool equal_bits(double a, double b) {
  return std::bit_cast<uint64_t>(a) == std::bit_cast<uint64_t>(b);
}

// Sequence n of a against sequence n + shift of b, rows that count in a.
Verdict same_sequence(const Instance& a, const Instance& b, int64_t n, int64_t shift) {
  const Case& c = a.c;
  const auto differ = [&](const char* what, int64_t i, int64_t h, double left, double right) {
    return Verdict{
        Result::kFailed,
        fmt::format("{} of sequence {}, query {}, head {} is {:.9g} here and {:.9g} in {}", what, n,
                    i, h, left, right, describe(b.c))};
  };
  for (int64_t i = 0; i < query_span(c, n).used; ++i) {
    for (int64_t h = 0; h < c.hq; ++h) {
      for (int64_t x = 0; x < c.dv; ++x) {
        const double left = a[Role::kO].at(a.index(Role::kO, n, i, h, x));
        const double right = b[Role::kO].at(b.index(Role::kO, n + shift, i, h, x));
        if (!equal_bits(left, right)) return differ("o", i, h, left, right);
      }
      const double left = a.lse_at(n, h, i);
      const double right = b.lse_at(n + shift, h, i);
      if (!equal_bits(left, right)) return differ("lse", i, h, left, right);
    }
  }
  return {};
}

Verdict same_cases(const Case& a, const Case& b, int64_t shift, int32_t backend) {
  Instance left = build(a);
  Instance right = build(b);
  return same_outputs(left, right, shift, backend);
}

// Writes finite junk into every row of k and v (or q) that does not count.
void fill_tails(Instance& instance, Role role) {
  HostTensor& t = instance[role];
  for (int64_t i = 0; i < t.size(); ++i) {
    if (std::isnan(t.flat(i))) t.set_flat(i, 100);
  }
}

Property layout_property(const Case& plain, Layout layout, const std::string& tensors) {
  Case other = plain;
  for (const char tensor : tensors) {
    (tensor == 'q'   ? other.q_layout
     : tensor == 'k' ? other.k_layout
     : tensor == 'v' ? other.v_layout
                     : other.o_layout) = layout;
  }
  return {fmt::format("layout {} of {}", layout_name(layout), tensors),
          [=](int32_t backend) { return same_cases(plain, other, 0, backend); }};
}

Property alone_property(const Case& all, int64_t n) {
  Case alone = all;
  alone.first = n;
  alone.b = 1;
  const Span queries = query_span(all, n);
  const Span keys = key_span(all, n);
  alone.cu_q.clear(), alone.cu_k.clear(), alone.used_q.clear(), alone.used_k.clear();
  alone.sq = queries.used;
  alone.sk = keys.used;
  return {fmt::format("{} alone: sequence {}", all.name, n),
          [=](int32_t backend) { return same_cases(alone, all, n, backend); }};
}

Property tails_property(const Case& c) {
  return {c.name + ": nothing behind the end matters", [=](int32_t backend) {
            Instance poisoned = build(c);
            Instance junk = build(c);
            for (const Role role : {Role::kQ, Role::kK, Role::kV}) fill_tails(junk, role);
            return same_outputs(poisoned, junk, 0, backend);
          }};
}

Property rerun_property(const Case& c) {
  return {"a second run", [=](int32_t backend) { return same_cases(c, c, 0, backend); }};
}

}  // namespace

Verdict same_outputs(Instance& a, Instance& b, int64_t shift, int32_t backend) {
  for (Instance* instance : {&a, &b}) {
    // Splitting the keys may depend on the batch; what is promised without it is tested.
    instance->options.num_splits = 1;
    Verdict verdict = judge_answer(*instance, backend, run(*instance, backend));
    if (verdict.result != Result::kPassed) return verdict;
  }
  for (int64_t n = 0; n < a.c.b; ++n) {
    if (const Verdict verdict = same_sequence(a, b, n, shift); !verdict.ok()) return verdict;
  }
  return {};
}

std::vector<Property> bit_properties(int32_t dtype) {
  const Case plain = base_case(dtype);
  std::vector<Property> properties{rerun_property(plain)};
  for (int i = 1; i < static_cast<int>(Layout::kCount); ++i) {
    for (const char* tensors : {"qkvo", "k", "v"}) {
      properties.push_back(layout_property(plain, static_cast<Layout>(i), tensors));
    }
  }
  Case dense = plain;
  dense.name = "dense";
  Case packed = plain;
  packed.name = "packed";
  packed.cu_q = {0, 70, 71, 130};
  packed.cu_k = {0, 150, 150, 215};
  packed.sq = 132;
  packed.sk = 217;
  Case used = plain;
  used.name = "used lengths";
  used.used_q = {70, 1, 33};
  used.used_k = {65, 150, 1};
  for (int64_t n = 0; n < plain.b; ++n) {
    properties.push_back(alone_property(dense, n));
    properties.push_back(alone_property(packed, n));
    properties.push_back(alone_property(used, n));
  }
  properties.push_back(tails_property(packed));
  properties.push_back(tails_property(used));
  return properties;
}

}  // namespace volley::check
