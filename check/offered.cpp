// SPDX-License-Identifier: BSD-3-Clause
#include "offered.h"

#include <algorithm>

namespace volley::check {
namespace {

bool has_bounds(const Case& c) { return c.left >= 0 || c.right >= 0; }

bool has_score_options(const Case& c) {
  return !c.bias.empty() || !c.mask.empty() || c.alibi || c.dropout_p > 0;
}

// What TMA can address: 16-byte aligned bases and strides, contiguous last dim, no step backwards.
bool is_aligned(const HostTensor& t) {
  if (reinterpret_cast<uintptr_t>(t.data()) % 16 != 0) return false;
  const std::vector<int64_t> shape = t.shape();
  const std::vector<int64_t> stride = t.stride();
  if (stride.back() != 1) return false;
  for (size_t axis = 0; axis + 1 < stride.size(); ++axis) {
    if (shape[axis] > 1 && (stride[axis] <= 0 || stride[axis] % 8 != 0)) return false;
  }
  return true;
}

bool sm90_must_offer(const Instance& instance) {
  const Case& c = instance.c;
  if (c.dtype != VOLLEY_BF16 && c.dtype != VOLLEY_F16) return false;
  if (c.out_dtype != 0 && c.out_dtype != c.dtype && c.out_dtype != VOLLEY_F32) return false;
  if (c.d % 8 != 0 || c.dv % 8 != 0 || std::max(c.d, c.dv) > 256 || c.scale <= 0) return false;
  if (has_score_options(c) || c.page > 0 || c.descale) return false;
  for (const Role role : {Role::kQ, Role::kK, Role::kV, Role::kO}) {
    if (!is_aligned(instance[role])) return false;
  }
  return true;
}

bool sm80_must_offer(const Instance& instance) {
  const Case& c = instance.c;
  if (c.dtype != VOLLEY_BF16 && c.dtype != VOLLEY_F16) return false;
  if (c.out_dtype != 0 && c.out_dtype != c.dtype && c.out_dtype != VOLLEY_F32) return false;
  return std::max(c.d, c.dv) <= 256 && c.page == 0 && !c.descale && c.bias_dtype != VOLLEY_F64;
}

bool sm80_must_offer_gradients(const Instance& instance) {
  // Sums of dbias over queries have no fixed order.
  const bool fixed = instance.c.deterministic || instance.c.batch_invariant;
  const bool summed = instance[Role::kDbias].present() && !instance.c.expanded_pairs &&
                      instance.c.bias.find('q') == std::string::npos;
  return sm80_must_offer(instance) && !(fixed && summed);
}

}  // namespace

bool must_offer(int32_t backend, const Instance& instance) {
  const Case& c = instance.c;
  if (c.op == VOLLEY_OP_BACKWARD) {
    const bool on_host = backend == VOLLEY_BACKEND_REFERENCE || backend == VOLLEY_BACKEND_CPU;
    if (on_host) return c.dtype != VOLLEY_E4M3;
    return backend == VOLLEY_BACKEND_SM80 && sm80_must_offer_gradients(instance);
  }
  switch (backend) {
    case VOLLEY_BACKEND_REFERENCE: return true;
    case VOLLEY_BACKEND_CPU: return c.dtype != VOLLEY_F64;
    case VOLLEY_BACKEND_SM80: return sm80_must_offer(instance);
    case VOLLEY_BACKEND_SM90: return sm90_must_offer(instance);
    default: return false;
  }
}

bool reason_fits(const Instance& instance, int32_t reason) {
  const Case& c = instance.c;
  switch (reason) {
    case VOLLEY_REASON_DTYPE: return c.dtype != VOLLEY_BF16 && c.dtype != VOLLEY_F16;
    case VOLLEY_REASON_STRIDE:
    case VOLLEY_REASON_ALIGNMENT:
    case VOLLEY_REASON_HEAD_DIM: return true;  // each backend has limits of its own
    case VOLLEY_REASON_BACKWARD: return c.op == VOLLEY_OP_BACKWARD;
    case VOLLEY_REASON_WINDOW: return c.causal || has_bounds(c);
    case VOLLEY_REASON_SCALE: return c.scale <= 0;
    case VOLLEY_REASON_SOFTCAP: return c.softcap > 0;
    case VOLLEY_REASON_SINK: return c.sink;
    case VOLLEY_REASON_VARLEN: return !c.cu_q.empty() || !c.cu_k.empty();
    case VOLLEY_REASON_USED_LENGTHS: return !c.used_q.empty() || !c.used_k.empty();
    case VOLLEY_REASON_PAGED: return c.page > 0;
    case VOLLEY_REASON_BIAS: return !c.bias.empty();
    case VOLLEY_REASON_ALIBI: return c.alibi;
    case VOLLEY_REASON_MASK: return !c.mask.empty();
    case VOLLEY_REASON_DROPOUT: return c.dropout_p > 0;
    case VOLLEY_REASON_DESCALE: return c.descale;
    case VOLLEY_REASON_DETERMINISTIC: return c.deterministic;
    case VOLLEY_REASON_BATCH_INVARIANT: return c.batch_invariant;
    case VOLLEY_REASON_OUTPUT_DTYPE: return c.out_dtype != 0;
    default: return false;
  }
}

}  // namespace volley::check
