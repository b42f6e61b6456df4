// SPDX-License-Identifier: BSD-3-Clause
//
// make_call: a small float64 problem with any subset of the contract's features, for the tests of
// gradients and of invariances. Rows that no sequence uses are left NaN in every operand.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "reference_call.h"

namespace volley::check {

enum : uint32_t {
  kGqa = 1u << 0,
  kWindow = 1u << 1,
  kShifted = 1u << 2,  // an explicit mask offset that leaves some rows empty
  kSoftcap = 1u << 3,
  kSink = 1u << 4,
  kBias = 1u << 5,
  kBroadcastBias = 1u << 6,  // over sequences and queries
  kAlibi = 1u << 7,
  kMask = 1u << 8,
  kDropout = 1u << 9,
  kVarlen = 1u << 10,
  kUsed = 1u << 11,
  kLseGradient = 1u << 12,
  kEveryFeature = (1u << 13) - 1
};

inline std::string feature_text(uint32_t features) {
  const char* names[] = {"gqa",   "window", "shifted", "softcap", "sink", "bias", "broadcast bias",
                         "alibi", "mask",   "dropout", "varlen",  "used", "dlse"};
  std::string text;
  for (size_t bit = 0; bit < std::size(names); ++bit) {
    if (features >> bit & 1u) text += std::string(names[bit]) + " ";
  }
  return text.empty() ? "plain" : text;
}

class CallMaker {
 public:
  CallMaker(uint32_t features, uint64_t seed) : features_(features), random_(seed) {}

  Call make() {
    const int64_t hq = 4;
    const int64_t hk = has(kGqa) ? 2 : 4;
    add_lengths();
    call_.q = operand(q_lengths_, q_used_, hq, 3);
    call_.k = operand(k_lengths_, k_used_, hk, 3);
    call_.v = operand(k_lengths_, k_used_, hk, 2);
    call_.add_outputs(VOLLEY_F64, VOLLEY_F64);
    call_.dout = operand(q_lengths_, q_used_, hq, 2);
    if (has(kLseGradient)) call_.dlse = normal(call_.lse.shape());
    add_options();
    add_extras(hq);
    call_.add_gradients(VOLLEY_F64);
    return std::move(call_);
  }

 private:
  bool has(uint32_t feature) const { return (features_ & feature) != 0; }

  HostTensor normal(std::vector<int64_t> shape, double sigma = 1) {
    return random_tensor(VOLLEY_F64, std::move(shape), &random_, sigma);
  }

  void add_lengths() {
    q_lengths_ = has(kVarlen) ? std::vector<int64_t>{3, 0, 4} : std::vector<int64_t>{4, 4, 4};
    k_lengths_ = has(kVarlen) ? std::vector<int64_t>{5, 2, 3} : std::vector<int64_t>{5, 5, 5};
    q_used_ = has(kUsed) ? std::vector<int64_t>{2, 0, 4} : q_lengths_;
    k_used_ = has(kUsed) ? std::vector<int64_t>{4, 2, 1} : k_lengths_;
    if (has(kVarlen)) {
      call_.cu_seqlens_q = lengths({0, 3, 3, 7});
      call_.cu_seqlens_k = lengths({0, 5, 7, 10});
      call_.options.max_seqlen_q = 4;
      call_.options.max_seqlen_k = 5;
    }
    if (has(kUsed)) {
      call_.seqused_q = lengths({q_used_.begin(), q_used_.end()});
      call_.seqused_k = lengths({k_used_.begin(), k_used_.end()});
    }
  }

  // NaN but for the used rows; a packed operand has two rows more than the sequences own.
  HostTensor operand(const std::vector<int64_t>& rows, const std::vector<int64_t>& used,
                     int64_t heads, int64_t channels) {
    int64_t total = 2;
    for (const int64_t count : rows) total += count;
    HostTensor tensor =
        has(kVarlen)
            ? HostTensor(VOLLEY_F64, {total, heads, channels})
            : HostTensor(VOLLEY_F64, {static_cast<int64_t>(rows.size()), rows[0], heads, channels});
    const int64_t row_size = heads * channels;
    std::normal_distribution<double> values;
    int64_t first = 0;
    for (size_t n = 0; n < rows.size(); first += rows[n++]) {
      for (int64_t e = 0; e < used[n] * row_size; ++e) {
        tensor.set_flat(first * row_size + e, values(random_));
      }
    }
    return tensor;
  }

  void add_options() {
    if (has(kWindow)) {
      call_.options.window_left = 2;
      call_.options.window_right = 1;
    }
    if (has(kShifted)) {
      call_.options.mask_alignment = VOLLEY_ALIGN_EXPLICIT;
      call_.options.mask_offset = -2;
      call_.options.causal = 1;
    }
    if (has(kSoftcap)) call_.options.softcap = 1.5;
    if (has(kDropout)) {
      call_.options.dropout_p = 0.3;
      call_.dropout_seed = tensor_of(VOLLEY_I64, {}, {12345});
      call_.dropout_offset = tensor_of(VOLLEY_I64, {1}, {678});
    }
  }

  void add_extras(int64_t hq) {
    const auto b = static_cast<int64_t>(q_lengths_.size());
    const int64_t sq = *std::max_element(q_lengths_.begin(), q_lengths_.end());
    const int64_t sk = *std::max_element(k_lengths_.begin(), k_lengths_.end());
    if (has(kSink)) call_.sink = normal({hq});
    if (has(kBias)) call_.bias = normal({b, hq, sq, sk});
    if (has(kBroadcastBias)) call_.bias = normal({1, hq, 1, sk});
    if (call_.bias.present()) call_.bias.set({0, 1, 0, 0}, -kInf);
    if (has(kAlibi)) {
      call_.alibi_slopes = tensor_of(VOLLEY_F32, {hq}, {0.5, 0.25, 0.125, 0.0625});
    }
    if (has(kMask)) {
      call_.mask = HostTensor(VOLLEY_BOOL, {b, 1, sq, sk});
      for (int64_t i = 0; i < call_.mask.size(); ++i) {
        call_.mask.set_flat(i, random_() % 4 != 0);
      }
    }
  }

  uint32_t features_;
  std::mt19937_64 random_;
  Call call_;
  std::vector<int64_t> q_lengths_, k_lengths_, q_used_, k_used_;
};

inline Call make_call(uint32_t features, uint64_t seed) { return CallMaker(features, seed).make(); }

}  // namespace volley::check
