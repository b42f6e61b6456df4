// SPDX-License-Identifier: BSD-3-Clause
//
// Numbers at the ends of their ranges on the Hopper kernels: logits, caps, sinks, windows, offsets.
#include "on_hopper.h"

namespace volley::check {
namespace {

constexpr int64_t kFar = std::numeric_limits<int64_t>::max();

class Numbers : public OnHopper {};

TEST_F(Numbers, ExtremeLogitsAtEveryHeadDim) {
  for (const int32_t dtype : kHalves) {
    for (const HeadDims& dims : kHeadDims) {
      for (const double deviation : {8.0, 30.0, 0.0}) {
        Case c;
        c.dtype = dtype;
        c.d = dims.d, c.dv = dims.dv;
        c.sq = 130, c.sk = 200;
        if (deviation > 0) {
          c.logit_std = deviation;
        } else {
          c.values = Values::kHuge;
        }
        expect_right(build(c));
        c.causal = true;
        expect_right(build(c));
        c.left = 40;
        expect_right(build(c));
      }
    }
  }
}

TEST_F(Numbers, CapsFarAboveAndBelowTheLogits) {
  for (const double softcap : {1e-3, 0.5, 30.0, 1e3, 1e5, 1e12, 1e30}) {
    for (const double deviation : {0.1, 3.0}) {
      Case c;
      c.set_heads(2, 1);
      c.sq = 20, c.sk = 90;
      c.softcap = softcap;
      c.logit_std = deviation;
      expect_right(build(c));
      c.out_dtype = VOLLEY_F32;
      expect_right(build(c));
      c.sk = 1;
      expect_right(build(c));
    }
  }
}

TEST_F(Numbers, SinksOfEveryKindAndType) {
  for (const int32_t sink_dtype : {VOLLEY_F32, VOLLEY_F16, VOLLEY_BF16}) {
    for (const double value : {-kInfinity, kInfinity, std::nan(""), -60000.0, -3.0, 0.0, 60000.0}) {
      for (const bool general : {false, true}) {
        Case c;
        c.set_heads(2, 1);
        c.sq = 140, c.sk = 130;  // the first ten rows see no key
        c.causal = true;
        c.left = general ? 70 : -1;
        c.sink = true;
        Instance instance = build(c);
        instance[Role::kSink] = HostTensor(sink_dtype, {2});
        instance[Role::kSink].fill(value);
        expect_right(instance);
      }
    }
  }
}

// The end of each side is a sum of two numbers that may be far beyond any row.
TEST_F(Numbers, WindowsAndOffsetsFarAway) {
  constexpr int64_t kLargestOffset = int64_t{1} << 60;
  struct Band {
    int64_t offset, left, right;
  };
  for (const Band& band : {Band{kLargestOffset, -1, 0},
                           {kLargestOffset, kLargestOffset + 5, -1},
                           {kLargestOffset, kFar, 0},
                           {-kLargestOffset, -1, kLargestOffset + 5},
                           {-kLargestOffset, 3, kFar},
                           {-kLargestOffset, -1, kLargestOffset - 200},
                           {0, kFar, kFar},
                           {1 << 30, (1 << 30) - 7, -1},
                           {-(1 << 30), -1, (1 << 30) + 7},
                           {int64_t{3} << 30, (int64_t{3} << 30) + 9, 0},
                           {-(int64_t{5} << 30), 0, (int64_t{5} << 30) + 9}}) {
    for (const bool packed : {false, true}) {
      Case c;
      c.b = 2;
      c.sq = 140, c.sk = 180;
      if (packed) c.cu_q = {0, 70, 140}, c.cu_k = {0, 100, 180};
      c.alignment = VOLLEY_ALIGN_EXPLICIT;
      c.offset = band.offset;
      c.left = band.left, c.right = band.right;
      expect_right(build(c));
      c.alignment = VOLLEY_ALIGN_BOTTOM_RIGHT;
      c.offset = 0;
      expect_right(build(c));
    }
  }
}

}  // namespace
}  // namespace volley::check
