// SPDX-License-Identifier: BSD-3-Clause
//
// From a Case to its tensors. Only rows that count are filled: all others, the gaps between
// strides, the pages of nobody and the outputs stay poisoned.
#include "case.h"

#include <algorithm>
#include <numeric>
#include <string_view>

#include "random.h"

namespace volley::check {
namespace {

// Elements of a token in front of q (slot 0), k or v in a buffer of all three.
int64_t fused_offset(const Case& c, size_t slot) {
  constexpr std::array<std::array<size_t, 3>, 6> kOrders{
      {{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}}};
  int64_t heads = 0;
  for (const size_t before : kOrders[c.seed % kOrders.size()]) {
    if (before == slot) break;
    heads += before == 0 ? c.hq : c.hk;
  }
  return heads * std::max(c.d, c.dv);
}

// slot: 0 of what is like q, 1 like k, 2 like v.
HostTensor make_tensor(const Case& c, Layout layout, int32_t dtype, std::vector<int64_t> shape,
                       size_t slot) {
  const size_t rank = shape.size();
  const int64_t s = shape[rank - 3];
  const int64_t h = shape[rank - 2];
  const int64_t d = shape[rank - 1];
  int64_t last = 1;
  int64_t head = d;
  int64_t row = h * d;
  int64_t offset = 0;
  switch (layout) {
    case Layout::kHeadsFirst: head = s * d, row = d; break;
    case Layout::kFused:
      row = (c.hq + 2 * c.hk) * std::max(c.d, c.dv);
      offset = fused_offset(c, slot);
      break;
    case Layout::kEverySecondRow: row *= 2; break;
    case Layout::kOddRows: row += 1; break;
    case Layout::kStridedLast: last = 2, head *= 2, row *= 2; break;
    case Layout::kReversed: row = -row; break;
    case Layout::kUnaligned: offset = 1; break;
    case Layout::kExpanded: head = 0, row = d; break;
    default: break;
  }
  const int64_t batch = layout == Layout::kHeadsFirst ? h * s * d
                        : layout == Layout::kExpanded ? 0
                                                      : std::abs(row) * s;
  std::vector<int64_t> stride{batch, row, head, last};
  if (rank == 3) stride.erase(stride.begin());
  return {dtype, std::move(shape), std::move(stride), offset};
}

// Of what is written, every element has a place of its own.
Layout written(Layout layout) { return layout == Layout::kExpanded ? Layout::kRows : layout; }

// The longest sequence; the whole tensor when all are empty, as a maximum of 0 means in the ABI.
int64_t longest(const std::vector<int32_t>& cu, int64_t total) {
  int64_t most = 0;
  for (size_t n = 0; n + 1 < cu.size(); ++n) most = std::max<int64_t>(most, cu[n + 1] - cu[n]);
  return most == 0 ? total : most;
}

int64_t max_sq(const Case& c) { return c.cu_q.empty() ? c.sq : longest(c.cu_q, c.sq); }

int64_t pages_each(const Case& c) {
  const int64_t most = *std::max_element(c.used_k.begin(), c.used_k.end());
  return std::max<int64_t>((most + c.page - 1) / c.page, 1);
}

int64_t max_sk(const Case& c) {
  if (c.page > 0) return pages_each(c) * c.page;
  return c.cu_k.empty() ? c.sk : longest(c.cu_k, c.sk);
}

HostTensor lengths(const std::vector<int32_t>& values) {
  if (values.empty()) return {};
  HostTensor t(VOLLEY_I32, {static_cast<int64_t>(values.size())});
  for (size_t i = 0; i < values.size(); ++i) t.set_flat(static_cast<int64_t>(i), values[i]);
  return t;
}

uint64_t key(Role role) { return static_cast<uint64_t>(role); }

// Each sequence takes its pages from a shuffled pool with three pages to spare; table entries past
// its last page stay poisoned.
HostTensor page_table(const Case& c) {
  const int64_t each = pages_each(c);
  HostTensor table(VOLLEY_I32, {c.b, each});
  std::vector<int64_t> pool(static_cast<size_t>(c.b * each + 3));
  std::iota(pool.begin(), pool.end(), 0);
  Random random{c.seed, key(Role::kPageTable)};
  for (size_t i = pool.size() - 1; i > 0; --i) {
    std::swap(pool[i], pool[static_cast<size_t>(random.integer(0, static_cast<int64_t>(i)))]);
  }
  for (int64_t n = 0; n < c.b; ++n) {
    const int64_t count = (c.used_k[static_cast<size_t>(n)] + c.page - 1) / c.page;
    for (int64_t p = 0; p < count; ++p) {
      table.set({n, p}, static_cast<double>(pool.back()));
      pool.pop_back();
    }
  }
  return table;
}

bool of_keys(Role role) {
  return role == Role::kK || role == Role::kV || role == Role::kDk || role == Role::kDv;
}

// Rows that count get draw(random, first element of a row?) in row-major order of the sequence.
template <class Draw>
void fill_rows(Instance& instance, Role role, const Draw& draw) {
  HostTensor& t = instance[role];
  const std::vector<int64_t> shape = t.shape();
  const int64_t heads = shape[shape.size() - 2];
  const int64_t width = shape[shape.size() - 1];
  for (int64_t n = 0; n < instance.c.b; ++n) {
    const Span span = of_keys(role) ? key_span(instance.c, n) : query_span(instance.c, n);
    Random random{instance.c.seed, key(role), static_cast<uint64_t>(instance.c.first + n)};
    for (int64_t i = 0; i < span.used; ++i) {
      for (int64_t h = 0; h < heads; ++h) {
        for (int64_t x = 0; x < width; ++x) {
          t.set(instance.index(role, n, i, h, x), draw(random, x == 0));
        }
      }
    }
  }
}

void fill_operands(Instance& instance) {
  const Case& c = instance.c;
  const double root = std::sqrt(static_cast<double>(c.d));
  const double scale = std::isnan(c.scale) ? 1 / root : std::abs(c.scale);
  const double huge = scale > 0 ? std::sqrt(5e4 / (scale * static_cast<double>(c.d))) : 1;
  const double q_std = scale > 0 ? c.logit_std / (scale * root) : 1;
  double sign = 1;
  const auto normal = [](Random& random, bool) { return random.normal(); };
  if (c.values == Values::kHuge) {
    fill_rows(instance, Role::kQ, [&](Random&, bool) { return huge; });
    fill_rows(instance, Role::kK, [&](Random& random, bool first) {
      if (first) sign = random.chance(0.5) ? 1 : -1;
      return sign * huge;
    });
  } else {
    fill_rows(instance, Role::kQ, [&](Random& random, bool) { return q_std * random.normal(); });
    const double k_std = c.values == Values::kUniformWeights ? 0 : 1;
    fill_rows(instance, Role::kK, [&](Random& random, bool) { return k_std * random.normal(); });
  }
  fill_rows(instance, Role::kV, normal);
  if (c.op == VOLLEY_OP_BACKWARD) fill_rows(instance, Role::kDout, normal);
}

void make_operands(Instance& instance) {
  const Case& c = instance.c;
  const auto shape = [&](bool packed, int64_t s, int64_t h, int64_t width) {
    return packed ? std::vector<int64_t>{s, h, width} : std::vector<int64_t>{c.b, s, h, width};
  };
  const bool packed_q = !c.cu_q.empty();
  const bool packed_k = !c.cu_k.empty();
  const int32_t out = c.out_dtype != 0         ? c.out_dtype
                      : c.dtype == VOLLEY_E4M3 ? VOLLEY_BF16
                                               : c.dtype;
  const auto q_shape = shape(packed_q, c.sq, c.hq, c.d);
  const auto o_shape = shape(packed_q, c.sq, c.hq, c.dv);
  auto k_shape = shape(packed_k, c.sk, c.hk, c.d);
  auto v_shape = shape(packed_k, c.sk, c.hk, c.dv);
  if (c.page > 0) {
    const int64_t pages = c.b * pages_each(c) + 3;
    k_shape = {pages, c.page, c.hk, c.d};
    v_shape = {pages, c.page, c.hk, c.dv};
    instance[Role::kPageTable] = page_table(c);
  }
  instance[Role::kQ] = make_tensor(c, c.q_layout, c.dtype, q_shape, 0);
  instance[Role::kK] = make_tensor(c, c.k_layout, c.dtype, k_shape, 1);
  instance[Role::kV] = make_tensor(c, c.v_layout, c.dtype, v_shape, 2);
  instance[Role::kO] = make_tensor(c, written(c.o_layout), out, o_shape, 0);
  const auto lse_shape =
      packed_q ? std::vector<int64_t>{c.hq, c.sq} : std::vector<int64_t>{c.b, c.hq, c.sq};
  const bool backward = c.op == VOLLEY_OP_BACKWARD;
  if (c.lse || backward) instance[Role::kLse] = HostTensor(VOLLEY_F32, lse_shape);
  if (!backward) return;
  instance[Role::kDout] = make_tensor(c, c.o_layout, out, o_shape, 0);
  const int32_t gradients = c.grad_dtype != 0 ? c.grad_dtype : c.dtype;
  instance[Role::kDq] = make_tensor(c, written(c.q_layout), gradients, q_shape, 0);
  instance[Role::kDk] = make_tensor(c, written(c.k_layout), gradients, k_shape, 1);
  instance[Role::kDv] = make_tensor(c, written(c.v_layout), gradients, v_shape, 2);
  if (c.lse_gradient) instance[Role::kDlse] = HostTensor(VOLLEY_F32, lse_shape);
}

// A (b, hq, sq, sk) tensor of size 1, or with a stride of 0, along every axis that `axes` does not
// name.
HostTensor pairwise(const Case& c, int32_t dtype, const std::string& axes) {
  const std::array<int64_t, 4> full{c.b, c.hq, max_sq(c), max_sk(c)};
  std::vector<int64_t> shape(4), stride(4);
  int64_t next = 1;
  for (size_t axis = 4; axis-- > 0;) {
    const bool varies = axes.find("bhqk"[axis]) != std::string::npos;
    shape[axis] = varies || c.expanded_pairs ? full[axis] : 1;
    stride[axis] = varies ? next : 0;
    if (varies) next *= std::max<int64_t>(full[axis], 1);
  }
  return {dtype, std::move(shape), std::move(stride)};
}

template <class Draw>
void fill_flat(HostTensor& t, Random random, const Draw& draw) {
  for (int64_t i = 0, n = t.size(); i < n; ++i) t.set_flat(i, draw(random));
}

void make_scores(Instance& instance) {
  const Case& c = instance.c;
  const auto stream = [&](Role role) { return Random{c.seed, key(role)}; };
  const auto normal = [](Random& random) { return random.normal(); };
  if (c.sink) {
    instance[Role::kSink] = HostTensor(VOLLEY_F32, {c.hq});
    fill_flat(instance[Role::kSink], stream(Role::kSink), normal);
  }
  if (c.alibi) {
    HostTensor& slopes = instance[Role::kAlibiSlopes] = HostTensor(VOLLEY_F32, {c.hq});
    for (int64_t h = 0; h < c.hq; ++h) {
      slopes.set({h}, std::exp2(-8.0 * static_cast<double>(h + 1) / static_cast<double>(c.hq)));
    }
  }
  if (!c.bias.empty()) {  // one in twenty hides its key
    instance[Role::kBias] = pairwise(c, c.bias_dtype, c.bias);
    fill_flat(instance[Role::kBias], stream(Role::kBias),
              [](Random& random) { return random.chance(0.05) ? -INFINITY : random.normal(); });
  }
  if (!c.mask.empty()) {
    instance[Role::kMask] = pairwise(c, VOLLEY_BOOL, c.mask);
    fill_flat(instance[Role::kMask], stream(Role::kMask),
              [](Random& random) { return random.chance(0.7) ? 1.0 : 0.0; });
  }
  if (c.dropout_p > 0) {
    instance[Role::kDropoutSeed] = HostTensor(VOLLEY_I64, {1});
    instance[Role::kDropoutSeed].fill(static_cast<double>(c.seed % (uint64_t{1} << 40)));
    if (c.seed % 2 == 1) {
      instance[Role::kDropoutOffset] = HostTensor(VOLLEY_I64, {1});
      instance[Role::kDropoutOffset].fill(0x100000000 + static_cast<double>(c.seed % 1000));
    }
  }
  if (c.op != VOLLEY_OP_BACKWARD) return;
  if (c.lse_gradient) fill_flat(instance[Role::kDlse], stream(Role::kDlse), normal);
  if (!c.optional_gradients) return;
  if (c.sink) instance[Role::kDsink] = HostTensor(VOLLEY_F32, {c.hq});
  const int32_t dbias = c.grad_dtype != 0 ? c.grad_dtype : c.bias_dtype;
  if (!c.bias.empty()) {
    instance[Role::kDbias] = pairwise(c, dbias, c.expanded_pairs ? "bhqk" : c.bias);
  }
}

void make_descales(Instance& instance) {
  const Case& c = instance.c;
  if (!c.descale) return;
  volley_problem& options = instance.options;
  options.q_scale_block = options.k_scale_block = options.v_scale_block = c.scale_block;
  const int64_t k_rows = c.page > 0 ? c.page : max_sk(c);
  const int64_t k_outer = c.page > 0 ? instance[Role::kK].shape()[0] : c.b;
  const auto scales = [&](int64_t outer, int64_t rows) {
    return HostTensor(c.scale_dtype, {outer, c.hk, (rows + c.scale_block - 1) / c.scale_block});
  };
  instance[Role::kQDescale] = scales(c.b, max_sq(c));
  instance[Role::kKDescale] = scales(k_outer, k_rows);
  instance[Role::kVDescale] = scales(k_outer, k_rows);
  for (const Role role : {Role::kQDescale, Role::kKDescale, Role::kVDescale}) {
    fill_flat(instance[role], Random{c.seed, key(role)},
              [](Random& random) { return random.uniform(0.5, 2); });
  }
}

Span span_of(const std::vector<int32_t>& cu, const std::vector<int32_t>& used, int64_t rows,
             int64_t n) {
  const auto at = static_cast<size_t>(n);
  Span span;
  span.batch = n;
  span.begin = cu.empty() ? 0 : cu[at];
  span.owned = cu.empty() ? rows : cu[at + 1] - cu[at];
  span.used = used.empty() ? span.owned : std::min<int64_t>(used[at], span.owned);
  return span;
}

}  // namespace

Span query_span(const Case& c, int64_t n) { return span_of(c.cu_q, c.used_q, c.sq, n); }

Span key_span(const Case& c, int64_t n) {
  return span_of(c.cu_k, c.used_k, c.page > 0 ? max_sk(c) : c.sk, n);
}

bool band_sees(const Case& c, int64_t sq, int64_t sk, int64_t i, int64_t j) {
  int64_t offset = sk - sq;
  if (c.alignment == VOLLEY_ALIGN_TOP_LEFT) offset = 0;
  if (c.alignment == VOLLEY_ALIGN_EXPLICIT) offset = c.offset;
  const int64_t distance = j - i - offset;
  if (c.causal && distance > 0) return false;
  if (c.left >= 0 && distance < -c.left) return false;
  return c.right < 0 || distance <= c.right;
}

volley_problem Instance::problem() const {
  volley_problem out = options;
  for (const core::RoleInfo& role : core::kRoles) {
    const volley_tensor* view = (*this)[role.role].view();
    auto* field = reinterpret_cast<char*>(&out) + role.problem_offset;
    *reinterpret_cast<const volley_tensor**>(field) = view;
  }
  return out;
}

bool Instance::writes(Role role) const {
  const bool backward = c.op == VOLLEY_OP_BACKWARD;
  return core::info(role).written ==
         (backward ? core::Written::kBackward : core::Written::kForward);
}

Instance Instance::clone() const {
  Instance copy = *this;
  for (HostTensor& t : copy.tensors) t = t.clone();
  return copy;
}

Index Instance::index(Role role, int64_t n, int64_t i, int64_t h, int64_t x) const {
  if (of_keys(role) && c.page > 0) {
    const auto page = static_cast<int64_t>((*this)[Role::kPageTable].at({n, i / c.page}));
    return {{page, i % c.page, h, x}, 4};
  }
  const std::vector<int32_t>& cu = of_keys(role) ? c.cu_k : c.cu_q;
  if (cu.empty()) return {{n, i, h, x}, 4};
  return {{cu[static_cast<size_t>(n)] + i, h, x}, 3};
}

double Instance::lse_at(int64_t n, int64_t h, int64_t i) const {
  const HostTensor& lse = (*this)[Role::kLse];
  return c.cu_q.empty() ? lse.at({n, h, i}) : lse.at({h, query_span(c, n).begin + i});
}

void start_values(const Case& c, Role role, HostTensor* gradient) {
  fill_flat(*gradient, Random{c.seed, key(role), 0xacc},
            [](Random& random) { return static_cast<double>(random.integer(-16, 16)) / 8; });
}

Instance build(const Case& c) {
  Instance instance;
  instance.c = c;
  volley_problem& options = instance.options;
  volley_problem_init(&options);
  options.op = c.op;
  options.scale = c.scale;
  options.softcap = c.softcap;
  options.dropout_p = c.dropout_p;
  options.causal = c.causal ? 1 : 0;
  options.accumulate_grads = c.accumulate ? 1 : 0;
  options.deterministic = c.deterministic ? 1 : 0;
  options.batch_invariant = c.batch_invariant ? 1 : 0;
  options.mask_alignment = c.alignment;
  options.mask_offset = c.offset;
  options.window_left = c.left;
  options.window_right = c.right;
  if (!c.cu_q.empty()) options.max_seqlen_q = max_sq(c);
  if (!c.cu_k.empty()) options.max_seqlen_k = max_sk(c);
  instance[Role::kCuSeqlensQ] = lengths(c.cu_q);
  instance[Role::kCuSeqlensK] = lengths(c.cu_k);
  instance[Role::kSequsedQ] = lengths(c.used_q);
  instance[Role::kSequsedK] = lengths(c.used_k);
  make_operands(instance);
  make_scores(instance);
  make_descales(instance);
  if (c.values != Values::kNone) fill_operands(instance);
  return instance;
}

}  // namespace volley::check
