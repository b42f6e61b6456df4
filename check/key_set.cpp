// SPDX-License-Identifier: BSD-3-Clause
#include "key_set.h"

#include <algorithm>

#include "compare.h"
#include "fmt.h"

namespace volley::check {
namespace {

// Needles are made of one power of two, exact in every dtype, so that their logit is known exactly.
struct Needle {
  double side = 1;   // of q and k
  double logit = 0;  // at least 30: all other keys together weigh nothing beside it
};

Needle needle_of(const Case& c) {
  const auto d = static_cast<double>(c.d);
  const double scale = std::isnan(c.scale) ? 1 / std::sqrt(d) : c.scale;
  Needle needle;
  while (scale * d * needle.side * needle.side < 30) needle.side *= 2;
  needle.logit = scale * d * needle.side * needle.side;
  return needle;
}

bool sees(const Case& c, int64_t n, int64_t i, int64_t j) {
  const int64_t sq = query_span(c, n).used;
  const int64_t sk = key_span(c, n).used;
  return i < sq && j < sk && band_sees(c, sq, sk, i, j);
}

int64_t keys_seen(const Case& c, int64_t n, int64_t i) {
  int64_t count = 0;
  for (int64_t j = 0; j < key_span(c, n).used; ++j) count += sees(c, n, i, j);
  return count;
}

Verdict wrong(const Instance& instance, int64_t n, int64_t h, int64_t i, int64_t j, double found,
              double wanted) {
  const bool lost = wanted != 0 && found == 0;
  const bool extra = wanted == 0 && found != 0;
  return {Result::kFailed,
          fmt::format("sequence {}, head {}, query {}: key {} {} (weight {:.6g}, wanted {:.6g})", n,
                      h, i, j,
                      lost    ? "is not seen, but should be"
                      : extra ? "is seen, but should not be"
                              : "has a wrong weight",
                      found, wanted) +
              " in " + describe(instance.c)};
}

// LSE of a row that sees `count` keys of logit 0, one of which may be a needle instead.
Verdict judge_lse(const Instance& instance, int64_t n, int64_t h, int64_t i, int64_t count,
                  bool needle) {
  if (!instance[Role::kLse].present()) return {};
  const double logit = needle ? needle_of(instance.c).logit : 0;
  const double wanted = std::log(static_cast<double>(count - needle) + needle * std::exp(logit));
  const double found = instance.lse_at(n, h, i);
  if (found == wanted || std::abs(found - wanted) <= 2e-5 + 4e-6 * logit) return {};
  return {Result::kFailed,
          fmt::format("lse of sequence {}, head {}, query {} is {}, wanted {} for {} keys in {}", n,
                      h, i, found, wanted, count, describe(instance.c))};
}

// Calls judge(n, h, i) for every query that counts until one fails.
template <class Judge>
Verdict for_queries(const Case& c, const Judge& judge) {
  for (int64_t n = 0; n < c.b; ++n) {
    for (int64_t h = 0; h < c.hq; ++h) {
      for (int64_t i = 0; i < query_span(c, n).used; ++i) {
        if (const Verdict verdict = judge(n, h, i); !verdict.ok()) return verdict;
      }
    }
  }
  return {};
}

// set(n, j, h) for every key that counts.
template <class Set>
void for_keys(const Case& c, const Set& set) {
  for (int64_t n = 0; n < c.b; ++n) {
    for (int64_t j = 0; j < key_span(c, n).used; ++j) {
      for (int64_t h = 0; h < c.hk; ++h) set(n, j, h);
    }
  }
}

void fill_queries(Instance& instance, double value) {
  const Case& c = instance.c;
  for (int64_t n = 0; n < c.b; ++n) {
    for (int64_t i = 0; i < query_span(c, n).used; ++i) {
      for (int64_t h = 0; h < c.hq; ++h) {
        for (int64_t x = 0; x < c.d; ++x) {
          instance[Role::kQ].set(instance.index(Role::kQ, n, i, h, x), value);
        }
      }
    }
  }
}

int64_t longest_keys(const Case& c) {
  int64_t most = 0;
  for (int64_t n = 0; n < c.b; ++n) most = std::max(most, key_span(c, n).used);
  return most;
}

Verdict check_one_hot(const Case& c, int32_t backend) {
  for (int64_t base = 0; base < std::max<int64_t>(longest_keys(c), 1); base += c.dv) {
    Instance instance = one_hot_instance(c, base);
    Verdict verdict = judge_answer(instance, backend, run(instance, backend));
    if (verdict.result == Result::kPassed) verdict = judge_one_hot(instance, base);
    if (verdict.result != Result::kPassed) return verdict;
  }
  return {};
}

Verdict check_needles(Case c, int32_t backend) {
  std::vector<int64_t> keys;
  const int64_t last = longest_keys(c) - 1;
  for (const int64_t key :
       {int64_t{0}, int64_t{63}, int64_t{64}, int64_t{79}, int64_t{80}, int64_t{127}, int64_t{128},
        int64_t{175}, int64_t{176}, int64_t{191}, int64_t{192}, last}) {
    if (key >= 0 && key <= last) keys.push_back(key);
  }
  if (keys.empty()) return {};
  const auto count = static_cast<int64_t>(keys.size());
  c.set_heads(count * c.group(), count);
  Instance instance = needle_instance(c, keys);
  const Verdict verdict = judge_answer(instance, backend, run(instance, backend));
  return verdict.result == Result::kPassed ? judge_needles(instance, keys) : verdict;
}

}  // namespace

Instance one_hot_instance(const Case& c, int64_t base) {
  Case empty = c;
  empty.values = Values::kNone;
  Instance instance = build(empty);
  for_keys(c, [&](int64_t n, int64_t j, int64_t h) {
    for (int64_t x = 0; x < c.d; ++x) {
      instance[Role::kK].set(instance.index(Role::kK, n, j, h, x), 0);
    }
    for (int64_t x = 0; x < c.dv; ++x) {
      instance[Role::kV].set(instance.index(Role::kV, n, j, h, x), j == base + x ? 1 : 0);
    }
  });
  fill_queries(instance, 1);
  return instance;
}

Verdict judge_one_hot(const Instance& instance, int64_t base) {
  const Case& c = instance.c;
  const HostTensor& o = instance[Role::kO];
  return for_queries(c, [&](int64_t n, int64_t h, int64_t i) -> Verdict {
    const int64_t count = keys_seen(c, n, i);
    for (int64_t x = 0; x < c.dv; ++x) {
      const double found = o.at(instance.index(Role::kO, n, i, h, x));
      const double wanted = sees(c, n, i, base + x) ? 1.0 / static_cast<double>(count) : 0;
      const double bound = wanted == 0 ? 0 : ulp(o.dtype(), wanted);
      if (std::abs(found - wanted) <= bound) continue;
      return wrong(instance, n, h, i, base + x, found, wanted);
    }
    return judge_lse(instance, n, h, i, count, false);
  });
}

Instance needle_instance(const Case& c, const std::vector<int64_t>& keys) {
  Case empty = c;
  empty.values = Values::kNone;
  Instance instance = build(empty);
  const double side = needle_of(c).side;
  for_keys(c, [&](int64_t n, int64_t j, int64_t h) {
    const bool needle = j == keys[static_cast<size_t>(h)];
    for (int64_t x = 0; x < c.d; ++x) {
      instance[Role::kK].set(instance.index(Role::kK, n, j, h, x), needle ? side : 0);
    }
    for (int64_t x = 0; x < c.dv; ++x) {
      instance[Role::kV].set(instance.index(Role::kV, n, j, h, x), needle ? 1 : 0);
    }
  });
  fill_queries(instance, side);
  return instance;
}

Verdict judge_needles(const Instance& instance, const std::vector<int64_t>& keys) {
  const Case& c = instance.c;
  const HostTensor& o = instance[Role::kO];
  return for_queries(c, [&](int64_t n, int64_t h, int64_t i) -> Verdict {
    const int64_t key = keys[static_cast<size_t>(h / c.group())];
    const bool seen = sees(c, n, i, key);
    const double wanted = seen ? 1 : 0;
    for (int64_t x = 0; x < c.dv; ++x) {
      const double found = o.at(instance.index(Role::kO, n, i, h, x));
      if (found == wanted) continue;
      return wrong(instance, n, h, i, key, found, wanted);
    }
    return judge_lse(instance, n, h, i, keys_seen(c, n, i), seen);
  });
}

Verdict check_key_set(const Case& c, int32_t backend) {
  const Verdict verdict = check_one_hot(c, backend);
  return verdict.result == Result::kPassed ? check_needles(c, backend) : verdict;
}

}  // namespace volley::check
