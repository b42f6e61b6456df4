// SPDX-License-Identifier: BSD-3-Clause
#include "bits.h"

#include <bit>

#include "fmt.h"

namespace volley::check {
namespace {

Case base_case(int32_t dtype, int32_t op) {
  Case c;
  c.op = op;
  c.dtype = dtype;
  c.b = 3;
  c.sq = 70;
  c.sk = 150;
  c.set_heads(4, 2);
  c.causal = true;
  c.deterministic = c.batch_invariant = true;
  return c;
}

bool equal_bits(double a, double b) {
  return std::bit_cast<uint64_t>(a) == std::bit_cast<uint64_t>(b);
}

// What the two calls write for sequence n of a and sequence n + shift of b, rows that count in a.
class SequencePair {
 public:
  SequencePair(const Instance& a, const Instance& b, int64_t n, int64_t shift)
      : a_(a), b_(b), n_(n), shift_(shift) {}

  Verdict compare() const {
    for (const Role role : {Role::kO, Role::kDq, Role::kDk, Role::kDv}) {
      if (!a_.writes(role)) continue;
      if (const Verdict verdict = compare_rows(role); !verdict.ok()) return verdict;
    }
    return a_.writes(Role::kLse) ? compare_lse() : Verdict{};
  }

 private:
  Verdict compare_rows(Role role) const {
    const bool keys = role == Role::kDk || role == Role::kDv;
    const std::vector<int64_t> shape = a_[role].shape();
    const int64_t rows = (keys ? key_span(a_.c, n_) : query_span(a_.c, n_)).used;
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t h = 0; h < shape[shape.size() - 2]; ++h) {
        for (int64_t x = 0; x < shape.back(); ++x) {
          const double left = a_[role].at(a_.index(role, n_, i, h, x));
          const double right = b_[role].at(b_.index(role, n_ + shift_, i, h, x));
          if (!equal_bits(left, right)) return differ(core::info(role).name, i, h, left, right);
        }
      }
    }
    return {};
  }

  Verdict compare_lse() const {
    for (int64_t i = 0; i < query_span(a_.c, n_).used; ++i) {
      for (int64_t h = 0; h < a_.c.hq; ++h) {
        const double left = a_.lse_at(n_, h, i);
        const double right = b_.lse_at(n_ + shift_, h, i);
        if (!equal_bits(left, right)) return differ("lse", i, h, left, right);
      }
    }
    return {};
  }

  Verdict differ(const char* what, int64_t i, int64_t h, double left, double right) const {
    return {Result::kFailed,
            fmt::format("{} of sequence {}, row {}, head {} is {:.9g} here and {:.9g} in {}", what,
                        n_, i, h, left, right, describe(b_.c))};
  }

  const Instance& a_;
  const Instance& b_;
  int64_t n_;
  int64_t shift_;
};

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

// As packed, or with used lengths, as `all`: which kernel runs may depend on that, never on the
// neighbours.
Property alone_property(const Case& all, int64_t n) {
  Case alone = all;
  alone.first = n;
  alone.b = 1;
  const Span queries = query_span(all, n);
  const Span keys = key_span(all, n);
  if (!all.cu_q.empty()) {
    alone.cu_q = {0, static_cast<int>(queries.used)};
    alone.cu_k = {0, static_cast<int>(keys.used)};
    alone.sq = queries.used;
    alone.sk = keys.used;
  }
  if (!all.used_q.empty()) {
    alone.used_q = {static_cast<int>(queries.used)};
    alone.used_k = {static_cast<int>(keys.used)};
  }
  return {fmt::format("{} alone: sequence {}", all.name, n),
          [=](int32_t backend) { return same_cases(alone, all, n, backend); }};
}

Property tails_property(const Case& c) {
  return {c.name + ": nothing behind the end matters", [=](int32_t backend) {
            Instance poisoned = build(c);
            Instance junk = build(c);
            for (const Role role : {Role::kQ, Role::kK, Role::kV}) fill_tails(junk, role);
            if (c.op == VOLLEY_OP_BACKWARD) fill_tails(junk, Role::kDout);
            return same_outputs(poisoned, junk, 0, backend);
          }};
}

// Keys and heads enough for an order of sums to matter: with two of them it does not.
Property rerun_property(const Case& plain, const char* bias) {
  Case c = plain;
  c.b = 2;
  c.set_heads(3, 1);
  c.sk = 400;
  c.bias = bias;
  c.sink = !c.bias.empty();
  return {fmt::format("a second run{}{}", c.sink ? " with a sink and a bias of " : "", bias),
          [=](int32_t backend) { return same_cases(c, c, 0, backend); }};
}

// Of calls with the same sequences: what belongs to none of them.
Verdict same_scores(const Instance& a, const Instance& b) {
  for (const Role role : {Role::kDbias, Role::kDsink}) {
    if (!a.writes(role) || !a[role].present()) continue;
    for (int64_t i = 0; i < a[role].size(); ++i) {
      if (equal_bits(a[role].flat(i), b[role].flat(i))) continue;
      return {Result::kFailed,
              fmt::format("element {} of {} is {:.9g} here and {:.9g} in {}", i,
                          core::info(role).name, a[role].flat(i), b[role].flat(i), describe(b.c))};
    }
  }
  return {};
}

}  // namespace

Verdict same_outputs(Instance& a, Instance& b, int64_t shift, int32_t backend) {
  for (Instance* instance : {&a, &b}) {
    // Splitting the keys may depend on the batch; what is promised without it is tested.
    instance->options.num_splits = 1;
    if (instance->c.op == VOLLEY_OP_BACKWARD) {
      const Verdict forward = fill_forward(*instance);
      if (!forward.ok()) return forward;
    }
    Verdict verdict = judge_answer(*instance, backend, run(*instance, backend));
    if (verdict.result != Result::kPassed) return verdict;
  }
  for (int64_t n = 0; n < a.c.b; ++n) {
    const Verdict verdict = SequencePair(a, b, n, shift).compare();
    if (!verdict.ok()) return verdict;
  }
  return a.c.b == b.c.b ? same_scores(a, b) : Verdict{};
}

std::vector<Property> bit_properties(int32_t dtype, int32_t op) {
  const Case plain = base_case(dtype, op);
  std::vector<Property> properties;
  for (const char* bias : {"", "bhqk", "bqk", "hq", "qk"}) {
    properties.push_back(rerun_property(plain, bias));
  }
  for (int i = 1; i < static_cast<int>(Layout::kOfAnyValues); ++i) {
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
