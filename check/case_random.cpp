// SPDX-License-Identifier: BSD-3-Clause
//
// Random cases within a scope, and the line that describes a case. Sizes are drawn around the
// tiles of the kernels, features one by one, so that pairs of them meet often.
#include <algorithm>

#include "case.h"
#include "random.h"

namespace volley::check {
namespace {

constexpr std::array<int64_t, 26> kLengths{1,   2,   3,   5,   7,   13,  16,  17, 31,
                                           33,  63,  64,  65,  79,  81,  95,  97, 113,
                                           127, 128, 129, 161, 176, 191, 193, 257};
constexpr std::array<int64_t, 17> kHeadDims{1,  2,  3,  7,  8,  16,  17,  32, 40,
                                            63, 64, 65, 80, 96, 128, 192, 256};

struct Draw {
  const Scope& scope;
  Random random;

  bool feature(uint32_t feature, double probability) {
    const bool drawn = random.chance(probability);
    return drawn && (scope.features & feature) != 0;
  }

  int64_t length(int64_t limit) {
    if (random.chance(0.04)) return 0;
    return std::min(random.pick(kLengths), std::max<int64_t>(limit, 1));
  }

  int64_t head_dim() {
    if (!scope.head_dims.empty()) return random.pick(scope.head_dims);
    return std::min(random.pick(kHeadDims), scope.max_head_dim);
  }

  Layout layout() { return random.chance(0.5) ? Layout::kRows : random.pick(scope.layouts); }

  std::vector<int32_t> cumulative(int64_t sequences, int64_t limit) {
    std::vector<int32_t> cu{0};
    for (int64_t n = 0; n < sequences; ++n) {
      cu.push_back(cu.back() + static_cast<int32_t>(length(limit)));
    }
    return cu;
  }

  std::vector<int32_t> used(const Case& c, Span (*span)(const Case&, int64_t)) {
    std::vector<int32_t> lengths;
    for (int64_t n = 0; n < c.b; ++n) {
      lengths.push_back(static_cast<int32_t>(random.integer(0, span(c, n).owned)));
    }
    return lengths;
  }
};

void draw_heads(Draw& draw, Case& c) {
  constexpr std::array<int64_t, 6> kGroups{1, 1, 2, 3, 4, 8};
  c.hk = draw.random.integer(1, 3);
  c.hq = c.hk * draw.random.pick(kGroups);
  c.d = draw.head_dim();
  c.dv = draw.feature(core::kDifferentDv, 0.25) ? draw.head_dim() : c.d;
  if ((draw.scope.features & core::kDifferentDv) == 0) c.dv = c.d;
}

void draw_lengths(Draw& draw, Case& c) {
  c.b = draw.random.chance(0.03) ? 0 : draw.random.integer(1, 3);
  const int64_t pairs = draw.scope.max_pairs / std::max<int64_t>(c.b * c.hq, 1);
  c.sk = draw.length(pairs);
  c.sq = draw.length(pairs / std::max<int64_t>(c.sk, 1));
  if (c.b > 0 && draw.feature(core::kVarlen, 0.3)) {
    c.cu_q = draw.cumulative(c.b, c.sq);
    c.cu_k = draw.cumulative(c.b, c.sk);
    c.sq = c.cu_q.back() + draw.random.integer(0, 2);  // rows that belong to nobody
    c.sk = c.cu_k.back() + draw.random.integer(0, 2);
  }
  if (c.b == 0) return;
  if (c.cu_k.empty() && draw.feature(core::kPaged, 0.2)) {
    constexpr std::array<int64_t, 6> kPages{1, 16, 64, 48, 5, 100};
    c.page = draw.random.pick(kPages);
    for (int64_t n = 0; n < c.b; ++n) {
      c.used_k.push_back(static_cast<int32_t>(draw.random.integer(0, c.sk)));
    }
  } else if (draw.feature(core::kUsedLengths, 0.25)) {
    c.used_k = draw.used(c, key_span);
  }
  if (draw.feature(core::kUsedLengths, 0.2)) c.used_q = draw.used(c, query_span);
}

void draw_band(Draw& draw, Case& c) {
  constexpr std::array<int32_t, 3> kAlignments{VOLLEY_ALIGN_BOTTOM_RIGHT, VOLLEY_ALIGN_TOP_LEFT,
                                               VOLLEY_ALIGN_EXPLICIT};
  c.causal = draw.feature(core::kCausal, 0.4);
  if (draw.feature(core::kWindow, 0.3)) {
    c.left = draw.random.integer(-1, 70);
    c.right = draw.random.integer(-1, 40);
  }
  c.alignment = draw.random.chance(0.6) ? kAlignments[0] : draw.random.pick(kAlignments);
  if (c.alignment == VOLLEY_ALIGN_EXPLICIT) c.offset = draw.random.integer(-c.sq - 5, c.sk + 5);
}

void draw_scores(Draw& draw, Case& c) {
  constexpr std::array<double, 4> kDeviations{1, 1, 4, 8};
  c.logit_std = draw.random.pick(kDeviations);
  if (draw.random.chance(0.2)) c.scale = draw.random.uniform(0.02, 0.3);
  if (draw.feature(core::kNonPositiveScale, 0.05)) c.scale = draw.random.chance(0.5) ? 0 : -0.1;
  if (draw.feature(core::kSoftcap, 0.2)) c.softcap = draw.random.uniform(0.5, 30);
  c.sink = draw.feature(core::kSink, 0.2);
  c.alibi = draw.feature(core::kAlibi, 0.15);
  constexpr std::array<const char*, 5> kAxes{"bhqk", "hqk", "qk", "bk", "k"};
  if (draw.feature(core::kBias, 0.15)) c.bias = draw.random.pick(kAxes);
  if (draw.feature(core::kMask, 0.15)) c.mask = draw.random.pick(kAxes);
  if (draw.feature(core::kDropout, 0.1)) c.dropout_p = draw.random.uniform(0.05, 0.6);
  const bool halves = c.dtype == VOLLEY_F16 || c.dtype == VOLLEY_BF16;
  if (halves && draw.random.chance(0.5)) c.bias_dtype = c.dtype;
  c.descale = c.dtype == VOLLEY_E4M3 && draw.feature(core::kDescale, 0.6);
  if (c.descale) {
    constexpr std::array<int32_t, 5> kBlocks{128, 128, 64, 7, 1};
    c.scale_block = draw.random.pick(kBlocks);
    if (draw.random.chance(0.3)) c.scale_dtype = VOLLEY_E8M0;
  }
  if (c.dtype != VOLLEY_F32 && draw.feature(core::kF32Output, 0.15)) c.out_dtype = VOLLEY_F32;
  c.lse = !draw.random.chance(0.15);
}

void draw_gradients(Draw& draw, Case& c) {
  c.op = VOLLEY_OP_BACKWARD;
  c.lse_gradient = draw.feature(core::kLseGradient, 0.3);
  c.accumulate = draw.feature(core::kAccumulate, 0.25);
  c.optional_gradients = !draw.random.chance(0.2);
  if (c.dtype != VOLLEY_F32 && draw.feature(core::kF32Output, 0.2)) c.grad_dtype = VOLLEY_F32;
  c.deterministic = draw.feature(core::kDeterministic, 0.3);
  c.batch_invariant = draw.feature(core::kBatchInvariant, 0.2);
}

// Inputs with strides of 0. Drawn last: nothing else of the case depends on it.
void draw_expanded(Draw& draw, Case& c) {
  const std::array<Layout*, 3> inputs{&c.q_layout, &c.k_layout, &c.v_layout};
  if (draw.random.chance(0.2)) *draw.random.pick(inputs) = Layout::kExpanded;
  c.expanded_pairs = draw.random.chance(0.3) && !(c.bias.empty() && c.mask.empty());
}

const char* alignment_name(int32_t alignment) {
  if (alignment == VOLLEY_ALIGN_TOP_LEFT) return "top-left";
  return alignment == VOLLEY_ALIGN_EXPLICIT ? "explicit" : "bottom-right";
}

}  // namespace

const char* layout_name(Layout layout) {
  constexpr std::array<const char*, 9> kNames{"rows",         "heads_first", "fused",
                                              "every_second", "odd_rows",    "strided_last",
                                              "reversed",     "unaligned",   "expanded"};
  return kNames[static_cast<size_t>(layout)];
}

Scope scope_of(int32_t backend, int32_t op) {
  Scope scope;
  scope.op = op;
  for (const core::Offer& offer : core::offers()) {
    if (offer.backend != backend || offer.op != op) continue;
    scope.dtypes.assign(offer.dtypes.begin(), offer.dtypes.end());
    std::erase(scope.dtypes, VOLLEY_F64);
    scope.features = offer.features;
    scope.max_head_dim = std::min<int64_t>(offer.max_head_dim, 256);
  }
  scope.layouts = {Layout::kRows, Layout::kHeadsFirst, Layout::kFused, Layout::kEverySecondRow};
  if (backend == VOLLEY_BACKEND_SM90) {
    scope.head_dims = {64, 128, 64, 128, 8, 40, 72, 80, 96, 104, 120, 136, 160, 192, 200, 256};
    return scope;
  }
  scope.layouts.insert(scope.layouts.end(),
                       {Layout::kOddRows, Layout::kReversed, Layout::kUnaligned});
  if (scope.features & core::kAnyStride) scope.layouts.push_back(Layout::kStridedLast);
  return scope;
}

Case random_case(const Scope& scope, uint64_t seed) {
  Draw draw{scope, Random{seed, 0xca5e}};
  Case c;
  c.name = fmt::format("random {}", seed);
  c.seed = seed;
  c.dtype = draw.random.pick(scope.dtypes);
  draw_heads(draw, c);
  draw_lengths(draw, c);
  draw_band(draw, c);
  draw_scores(draw, c);
  c.q_layout = draw.layout();
  c.k_layout = draw.layout();
  c.v_layout = draw.layout();
  c.o_layout = draw.layout();
  if (scope.op == VOLLEY_OP_BACKWARD) draw_gradients(draw, c);
  draw_expanded(draw, c);
  return c;
}

std::string describe(const Case& c) {
  std::string text =
      fmt::format("{} [{} b={} sq={} sk={} hq={} hk={} d={} dv={} seed={}", c.name,
                  volley_dtype_name(c.dtype), c.b, c.sq, c.sk, c.hq, c.hk, c.d, c.dv, c.seed);
  const auto add = [&](bool present, const std::string& what) {
    if (present) text += ' ' + what;
  };
  const auto list = [](const char* name, const std::vector<int32_t>& values) {
    return fmt::format("{}={}", name, fmt::join(values, ","));
  };
  add(c.op == VOLLEY_OP_BACKWARD, "backward");
  add(!c.cu_q.empty(), list("cu_q", c.cu_q));
  add(!c.cu_k.empty(), list("cu_k", c.cu_k));
  add(!c.used_q.empty(), list("used_q", c.used_q));
  add(!c.used_k.empty(), list("used_k", c.used_k));
  add(c.page > 0, fmt::format("page={}", c.page));
  add(c.causal, "causal");
  add(c.left >= 0 || c.right >= 0, fmt::format("window={},{}", c.left, c.right));
  add(c.alignment != VOLLEY_ALIGN_BOTTOM_RIGHT, alignment_name(c.alignment));
  add(c.alignment == VOLLEY_ALIGN_EXPLICIT, fmt::format("offset={}", c.offset));
  add(!std::isnan(c.scale), fmt::format("scale={:.4g}", c.scale));
  add(c.softcap != 0, fmt::format("softcap={:.4g}", c.softcap));
  add(c.dropout_p != 0, fmt::format("dropout={:.4g}", c.dropout_p));
  add(c.sink, "sink");
  add(c.alibi, "alibi");
  add(!c.bias.empty(), fmt::format("bias={} {}", c.bias, volley_dtype_name(c.bias_dtype)));
  add(!c.mask.empty(), "mask=" + c.mask);
  add(c.expanded_pairs, "expanded");
  add(c.descale, fmt::format("descale={},{}", volley_dtype_name(c.scale_dtype), c.scale_block));
  add(!c.lse, "no lse");
  add(c.lse_gradient, "dlse");
  add(c.accumulate, "accumulate");
  add(c.deterministic, "deterministic");
  add(c.batch_invariant, "batch_invariant");
  add(!c.optional_gradients, "no dbias, no dsink");
  add(c.grad_dtype != 0, fmt::format("gradients={}", volley_dtype_name(c.grad_dtype)));
  add(c.out_dtype != 0, fmt::format("o={}", volley_dtype_name(c.out_dtype)));
  add(c.values != Values::kNormal, c.values == Values::kHuge ? "huge" : "uniform");
  add(c.logit_std != 1, fmt::format("logit_std={}", c.logit_std));
  const std::array<Layout, 4> layouts{c.q_layout, c.k_layout, c.v_layout, c.o_layout};
  const bool plain = std::all_of(layouts.begin(), layouts.end(),
                                 [](Layout layout) { return layout == Layout::kRows; });
  for (size_t i = 0; i < layouts.size() && !plain; ++i) {
    text += fmt::format(" {}:{}", "qkvo"[i], layout_name(layouts[i]));
  }
  return text + ']';
}

}  // namespace volley::check
