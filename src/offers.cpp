// SPDX-License-Identifier: BSD-3-Clause
#include "offers.h"

#include <algorithm>
#include <array>

#include "dtype.h"

namespace volley::core {
namespace {

struct FeatureInfo {
  Feature feature;
  int32_t reason;
  const char* name;
};

constexpr FeatureInfo kFeatures[] = {
    {kCausal, VOLLEY_REASON_WINDOW, "causal"},
    {kWindow, VOLLEY_REASON_WINDOW, "window"},
    {kSoftcap, VOLLEY_REASON_SOFTCAP, "softcap"},
    {kSink, VOLLEY_REASON_SINK, "sink"},
    {kVarlen, VOLLEY_REASON_VARLEN, "varlen"},
    {kUsedLengths, VOLLEY_REASON_USED_LENGTHS, "used lengths"},
    {kPaged, VOLLEY_REASON_PAGED, "paged keys"},
    {kBias, VOLLEY_REASON_BIAS, "bias"},
    {kAlibi, VOLLEY_REASON_ALIBI, "ALiBi"},
    {kMask, VOLLEY_REASON_MASK, "boolean mask"},
    {kDropout, VOLLEY_REASON_DROPOUT, "dropout"},
    {kDescale, VOLLEY_REASON_DESCALE, "descales"},
    {kSplits, VOLLEY_REASON_SPLITS, "splits"},
    {kDeterministic, VOLLEY_REASON_DETERMINISTIC, "deterministic"},
    {kBatchInvariant, VOLLEY_REASON_BATCH_INVARIANT, "batch_invariant"},
    {kPrecision, VOLLEY_REASON_PRECISION, "a precision other than the inputs'"},
    {kFastAccuracy, VOLLEY_REASON_ACCURACY, "accuracy = fast"},
    {kF32Output, VOLLEY_REASON_OUTPUT_DTYPE, "fp32 outputs of narrower inputs"},
    {kF64Output, VOLLEY_REASON_OUTPUT_DTYPE, "fp64 outputs"},
    {kAccumulate, VOLLEY_REASON_ACCUMULATE, "accumulate_grads"},
    {kDifferentDv, VOLLEY_REASON_HEAD_DIM, "dv != d"},
    {kNonPositiveScale, VOLLEY_REASON_SCALE, "scale <= 0"},
    {kAnyStride, VOLLEY_REASON_STRIDE, "a last dim that is not contiguous"},
    {kLseGradient, VOLLEY_REASON_BACKWARD, "the gradient of LSE"},
};
static_assert(std::size(kFeatures) == kFeatureCount);

constexpr uint32_t kAll = (1u << kFeatureCount) - 1;

constexpr std::array<int32_t, 5> kEveryDtype = {VOLLEY_F64, VOLLEY_F32, VOLLEY_F16, VOLLEY_BF16,
                                                VOLLEY_E4M3};
constexpr std::array<int32_t, 4> kNoFp8 = {VOLLEY_F64, VOLLEY_F32, VOLLEY_F16, VOLLEY_BF16};
constexpr std::array<int32_t, 4> kNoF64 = {VOLLEY_F32, VOLLEY_F16, VOLLEY_BF16, VOLLEY_E4M3};
constexpr std::array<int32_t, 3> kUpTo32 = {VOLLEY_F32, VOLLEY_F16, VOLLEY_BF16};
constexpr std::array<int32_t, 2> kHalves = {VOLLEY_F16, VOLLEY_BF16};

// A forward without splits is deterministic and batch invariant as it is on every backend: each
// row is computed by one tile whose arithmetic depends on that row's own data.
constexpr Offer kOffers[] = {
    {VOLLEY_BACKEND_REFERENCE, VOLLEY_OP_FORWARD, kEveryDtype, kAll & ~kPrecision, 1024},
    {VOLLEY_BACKEND_REFERENCE, VOLLEY_OP_BACKWARD, kNoFp8, kAll & ~(kPrecision | kDescale), 1024},
    {VOLLEY_BACKEND_CPU, VOLLEY_OP_FORWARD, kNoF64,
     kAll & ~(kSplits | kPrecision | kF64Output | kAccumulate | kLseGradient), 1024},
    {VOLLEY_BACKEND_CPU, VOLLEY_OP_BACKWARD, kUpTo32,
     kAll & ~(kSplits | kPrecision | kF64Output | kDescale), 1024},
    {VOLLEY_BACKEND_SM80, VOLLEY_OP_FORWARD, kHalves,
     kAll & ~(kPaged | kDescale | kSplits | kPrecision | kF64Output | kAccumulate | kLseGradient),
     256},
    {VOLLEY_BACKEND_SM80, VOLLEY_OP_BACKWARD, kHalves,
     kAll & ~(kPaged | kDescale | kSplits | kPrecision | kF64Output), 256},
    {VOLLEY_BACKEND_SM90, VOLLEY_OP_FORWARD, kHalves,
     kCausal | kWindow | kSoftcap | kSink | kVarlen | kUsedLengths | kDeterministic |
         kBatchInvariant | kFastAccuracy | kF32Output | kDifferentDv,
     256},
};

bool is_strided(const Tensor& tensor) {
  if (!tensor.present || tensor.empty()) return false;  // strides of an empty one are all 0
  return tensor.shape[3] > 1 && tensor.stride[3] != 1;
}

const char* op_name(int32_t op) { return op == VOLLEY_OP_BACKWARD ? "backward" : "forward"; }

uint32_t output_features(const Problem& problem) {
  constexpr Role kForwardOutputs[] = {Role::kO, Role::kLse};
  constexpr Role kBackwardOutputs[] = {Role::kDq, Role::kDk, Role::kDv, Role::kDbias, Role::kDsink};
  const bool backward = problem.op == VOLLEY_OP_BACKWARD;
  uint32_t features = 0;
  for (const Role role : backward ? std::span<const Role>(kBackwardOutputs)
                                  : std::span<const Role>(kForwardOutputs)) {
    if (!problem.has(role)) continue;
    if (problem[role].dtype == VOLLEY_F64) features |= kF64Output;
    const bool always_f32 = role == Role::kLse || role == Role::kDsink;
    if (problem[role].dtype == VOLLEY_F32 && !always_f32 &&
        dtype_size(problem[Role::kQ].dtype) < 4) {
      features |= kF32Output;
    }
  }
  return features;
}

}  // namespace

uint32_t features_of(const Problem& problem) {
  uint32_t features = output_features(problem);
  const auto add = [&](Feature feature, bool needed) { features |= needed ? feature : 0u; };
  const Band& band = problem.band;
  const bool causal = band.left < 0 && band.right == 0;
  add(kCausal, causal);
  add(kWindow, !causal && !band.open());
  add(kSoftcap, problem.softcap > 0);
  add(kSink, problem.has(Role::kSink));
  add(kVarlen, problem.packed_q || problem.packed_k);
  add(kUsedLengths, problem.has(Role::kSequsedQ) || problem.has(Role::kSequsedK));
  add(kPaged, problem.page > 0);
  add(kBias, problem.has(Role::kBias));
  add(kAlibi, problem.has(Role::kAlibiSlopes));
  add(kMask, problem.has(Role::kMask));
  add(kDropout, problem.dropout_p > 0);
  add(kDescale,
      problem.has(Role::kQDescale) || problem.has(Role::kKDescale) || problem.has(Role::kVDescale));
  add(kSplits, problem.num_splits > 1 || problem.split_size > 0);
  add(kDeterministic, problem.deterministic);
  add(kBatchInvariant, problem.batch_invariant);
  add(kPrecision, problem.precision != VOLLEY_PRECISION_DEFAULT);
  add(kFastAccuracy, problem.accuracy == VOLLEY_ACCURACY_FAST);
  add(kAccumulate, problem.accumulate_grads);
  add(kDifferentDv, problem.d != problem.dv);
  add(kNonPositiveScale, problem.scale <= 0);
  add(kLseGradient, problem.has(Role::kDlse));
  for (const Role role :
       {Role::kQ, Role::kK, Role::kV, Role::kO, Role::kDout, Role::kDq, Role::kDk, Role::kDv}) {
    add(kAnyStride, is_strided(problem[role]));
  }
  return features;
}

std::span<const Offer> offers() { return kOffers; }

std::string feature_names(uint32_t features) {
  std::string names;
  for (const FeatureInfo& entry : kFeatures) {
    if (features & entry.feature) names += (names.empty() ? "" : ", ") + std::string(entry.name);
  }
  return names.empty() ? "none" : names;
}

Status check_offer(const Problem& problem, int32_t backend) {
  const auto row = std::find_if(std::begin(kOffers), std::end(kOffers), [&](const Offer& offer) {
    return offer.backend == backend && offer.op == problem.op;
  });
  const char* name = volley_backend_name(backend);
  if (row == std::end(kOffers)) {
    return not_offered(VOLLEY_REASON_BACKWARD, "{} does not offer the {} yet", name,
                       op_name(problem.op));
  }
  const int32_t dtype = problem[Role::kQ].dtype;
  if (std::find(row->dtypes.begin(), row->dtypes.end(), dtype) == row->dtypes.end()) {
    std::string wanted;
    for (const int32_t offered : row->dtypes) {
      wanted += (wanted.empty() ? "" : ", ") + std::string(volley_dtype_name(offered));
    }
    return not_offered(VOLLEY_REASON_DTYPE, "{} {} takes {}, not {}", name, op_name(problem.op),
                       wanted, volley_dtype_name(dtype));
  }
  if (std::max(problem.d, problem.dv) > row->max_head_dim) {
    return not_offered(VOLLEY_REASON_HEAD_DIM, "{} {} takes head dims up to {}, not {}", name,
                       op_name(problem.op), row->max_head_dim, std::max(problem.d, problem.dv));
  }
  const uint32_t missing = features_of(problem) & ~row->features;
  if (missing == 0) return {};
  const auto first =
      std::find_if(std::begin(kFeatures), std::end(kFeatures),
                   [&](const FeatureInfo& entry) { return missing & entry.feature; });
  return not_offered(first->reason, "{} {} does not offer {} (it offers {})", name,
                     op_name(problem.op), feature_names(missing), feature_names(row->features));
}

}  // namespace volley::core
