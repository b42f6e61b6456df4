// SPDX-License-Identifier: BSD-3-Clause
//
// volley_combine: merges attention over disjoint sets of keys (split keys, ring attention, cache
// levels) into what one call over all of them would have given. On host memory, in float64.
//
//   lse = log(sum_n exp(lse_n) + exp(sink)),  o = sum_n exp(lse_n - lse) o_n
#include <cmath>
#include <initializer_list>
#include <limits>
#include <vector>

#include "abi.h"
#include "cpu/view.h"
#include "problem_tensor.h"

namespace volley::core {
namespace {

constexpr double kEmpty = -std::numeric_limits<double>::infinity();

// The tensors of one call in normal form: o_parts (n, b, sq, hq, dv), lse_parts (n, b, hq, sq),
// o (b, sq, hq, dv), lse (b, hq, sq).
struct Merge {
  Tensor o_parts, lse_parts, sink, o, lse;
  void *o_parts_data, *lse_parts_data, *sink_data, *o_data, *lse_data;
};

Status read(const char* name, const volley_tensor* in, Tensor* out, void** data) {
  *data = nullptr;
  if (in == nullptr) return {};
  VOLLEY_TRY(read_tensor(name, *in, out));
  if (in->device_type != VOLLEY_DEVICE_CPU) {
    return not_offered(VOLLEY_REASON_DEVICE,
                       "{} is not in host memory: volley_combine is on the CPU only", name);
  }
  if (in->data == nullptr && !out->empty()) {
    return invalid(VOLLEY_REASON_NULL, "{}.data is NULL", name);
  }
  *data = in->data;
  return {};
}

Status check_dtypes(const Merge& m) {
  const std::initializer_list<int32_t> floats = {VOLLEY_F32, VOLLEY_F16, VOLLEY_BF16, VOLLEY_F64};
  const std::initializer_list<int32_t> wide = {VOLLEY_F32, VOLLEY_F64};
  VOLLEY_TRY(expect_dtype("o_parts", m.o_parts, floats));
  VOLLEY_TRY(expect_dtype("lse_parts", m.lse_parts, wide));
  VOLLEY_TRY(expect_dtype("o", m.o, floats));
  if (m.lse.present) VOLLEY_TRY(expect_dtype("lse", m.lse, wide));
  if (m.sink.present) VOLLEY_TRY(expect_dtype("sink", m.sink, floats));
  return {};
}

Status check_shapes(Merge* m) {
  const bool packed = m->o_parts.ndim == 4;
  if (!packed) {
    VOLLEY_TRY(expect_ndim("o_parts", m->o_parts, 5,
                           "(n, b, sq, hq, dv), or 4 dims (n, total_q, hq, dv)"));
  }
  if (packed) insert_axis(&m->o_parts, 1, 1);
  const auto [n, b, sq, hq, dv] = m->o_parts.shape;
  if (packed) {
    VOLLEY_TRY(expect_shape("lse_parts", m->lse_parts, {n, hq, sq}, "(n, hq, total_q)"));
    VOLLEY_TRY(expect_shape("o", m->o, {sq, hq, dv}, "(total_q, hq, dv)"));
    insert_axis(&m->lse_parts, 1, 1);
    insert_axis(&m->o, 0, 1);
    if (m->lse.present) {
      VOLLEY_TRY(expect_shape("lse", m->lse, {hq, sq}, "(hq, total_q)"));
      insert_axis(&m->lse, 0, 1);
    }
  } else {
    VOLLEY_TRY(expect_shape("lse_parts", m->lse_parts, {n, b, hq, sq}, "(n, b, hq, sq)"));
    VOLLEY_TRY(expect_shape("o", m->o, {b, sq, hq, dv}, "(b, sq, hq, dv)"));
    if (m->lse.present) VOLLEY_TRY(expect_shape("lse", m->lse, {b, hq, sq}, "(b, hq, sq)"));
  }
  if (m->sink.present) VOLLEY_TRY(expect_shape("sink", m->sink, {hq}, "(hq)"));
  for (const auto& [name, tensor] : {std::pair{"o", &m->o}, std::pair{"lse", &m->lse}}) {
    if (tensor->present && may_overlap(*tensor)) {
      return invalid(VOLLEY_REASON_OVERLAP,
                     "{} has elements that share memory or strides that interleave: an output "
                     "needs a place for each element",
                     name);
    }
  }
  return {};
}

// One row of one head; o is scratch. A part is empty iff its lse is -inf: its o is not read.
void merge_row(const Merge& m, int64_t b, int64_t i, int64_t h, std::vector<double>* o) {
  const View lse_parts{&m.lse_parts, m.lse_parts_data};
  const View o_parts{&m.o_parts, m.o_parts_data};
  const int64_t parts = m.o_parts.shape[0];
  const double sink = m.sink.present ? View{&m.sink, m.sink_data}.at(h) : kEmpty;

  double max = sink;
  for (int64_t n = 0; n < parts; ++n) max = std::fmax(max, lse_parts.at(n, b, h, i));
  double sum = sink == kEmpty ? 0 : std::exp(sink - max);
  std::fill(o->begin(), o->end(), 0.0);
  for (int64_t n = 0; n < parts; ++n) {
    const double lse = lse_parts.at(n, b, h, i);
    if (lse == kEmpty) continue;
    const double weight = std::exp(lse - max);
    sum += weight;
    for (size_t e = 0; e < o->size(); ++e) {
      (*o)[e] += weight * o_parts.at(n, b, i, h, static_cast<int64_t>(e));
    }
  }

  const double scale = sum == 0 ? 0 : 1 / sum;
  for (size_t e = 0; e < o->size(); ++e) {
    View{&m.o, m.o_data}.set((*o)[e] * scale, b, i, h, static_cast<int64_t>(e));
  }
  if (m.lse.present) View{&m.lse, m.lse_data}.set(max + std::log(sum), b, h, i);
}

void merge(const Merge& m) {
  if (m.o.empty() && (!m.lse.present || m.lse.empty())) return;  // no memory bounds the loops then
  std::vector<double> o(static_cast<size_t>(m.o.shape[3]));
  for (int64_t b = 0; b < m.o.shape[0]; ++b) {
    for (int64_t i = 0; i < m.o.shape[1]; ++i) {
      for (int64_t h = 0; h < m.o.shape[2]; ++h) merge_row(m, b, i, h, &o);
    }
  }
}

}  // namespace
}  // namespace volley::core

using namespace volley::core;

int32_t volley_combine(const volley_tensor* o_parts, const volley_tensor* lse_parts,
                       const volley_tensor* sink, const volley_tensor* o, const volley_tensor* lse,
                       void*, volley_error* error) {
  return guarded(error, [&]() -> Status {
    for (const auto& [name, tensor] :
         {std::pair{"o_parts", o_parts}, std::pair{"lse_parts", lse_parts}, std::pair{"o", o}}) {
      if (tensor == nullptr) return invalid(VOLLEY_REASON_NULL, "{} is NULL", name);
    }
    Merge m;
    VOLLEY_TRY(read("o_parts", o_parts, &m.o_parts, &m.o_parts_data));
    VOLLEY_TRY(read("lse_parts", lse_parts, &m.lse_parts, &m.lse_parts_data));
    VOLLEY_TRY(read("sink", sink, &m.sink, &m.sink_data));
    VOLLEY_TRY(read("o", o, &m.o, &m.o_data));
    VOLLEY_TRY(read("lse", lse, &m.lse, &m.lse_data));
    VOLLEY_TRY(check_dtypes(m));
    VOLLEY_TRY(check_shapes(&m));
    merge(m);
    return {};
  });
}
