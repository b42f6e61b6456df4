// SPDX-License-Identifier: BSD-3-Clause
//
// Problem: what is accepted, its normal form, and the sentence for everything else.
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <limits>
#include <string>

#include "problem_builder.h"

namespace volley::core {
namespace {

Problem accepted(const ProblemBuilder& builder) {
  Problem problem;
  const Status status = builder.make(&problem);
  EXPECT_TRUE(status.ok()) << status.message;
  return problem;
}

TEST(Problem, DenseGeometry) {
  const Problem p = accepted(ProblemBuilder::plain());
  EXPECT_EQ(p.b, 2);
  EXPECT_EQ(p.max_sq, 5);
  EXPECT_EQ(p.max_sk, 7);
  EXPECT_EQ(p.group(), 2);
  EXPECT_DOUBLE_EQ(p.scale, 0.125);
  EXPECT_TRUE(p.band.open());
  EXPECT_EQ(p[Role::kQ].alignment, 16);  // assumed without data
}

TEST(Problem, PackedTensorsGetABatchAxis) {
  ProblemBuilder builder;
  builder.set(Role::kQ, contiguous(VOLLEY_F16, {9, 4, 32}));
  builder.set(Role::kK, contiguous(VOLLEY_F16, {11, 2, 32}));
  builder.set(Role::kV, contiguous(VOLLEY_F16, {11, 2, 16}));
  builder.set(Role::kO, contiguous(VOLLEY_F32, {9, 4, 16}));
  builder.set(Role::kLse, contiguous(VOLLEY_F32, {4, 9}));
  builder.set(Role::kCuSeqlensQ, contiguous(VOLLEY_I32, {4}));
  builder.set(Role::kCuSeqlensK, contiguous(VOLLEY_I32, {4}));
  builder.options.max_seqlen_q = 5;
  const Problem p = accepted(builder);
  EXPECT_EQ(p.b, 3);
  EXPECT_EQ(p.max_sq, 5);
  EXPECT_EQ(p.max_sk, 11);
  EXPECT_EQ(p[Role::kQ].shape, (std::array<int64_t, 5>{1, 9, 4, 32, 0}));
  EXPECT_EQ(p[Role::kLse].shape, (std::array<int64_t, 5>{1, 4, 9, 0, 0}));
  EXPECT_EQ(p[Role::kQ].stride[0], 0);
}

TEST(Problem, PagedKeys) {
  ProblemBuilder builder = ProblemBuilder::plain();
  builder.set(Role::kK, contiguous(VOLLEY_BF16, {10, 16, 2, 64}));
  builder.set(Role::kV, contiguous(VOLLEY_BF16, {10, 16, 2, 64}));
  builder.set(Role::kPageTable, contiguous(VOLLEY_I32, {2, 3}));
  builder.set(Role::kSequsedK, contiguous(VOLLEY_I32, {2}));
  const Problem p = accepted(builder);
  EXPECT_EQ(p.page, 16);
  EXPECT_EQ(p.max_sk, 48);
}

TEST(Problem, StridesOfSizeOneDimsMeanNothing) {
  ProblemBuilder a(VOLLEY_BF16, 1, 5, 5, 1, 1, 64, 64);
  ProblemBuilder b = a;
  b[Role::kK].stride[0] = 337;
  b[Role::kK].stride[2] = std::numeric_limits<int64_t>::min();
  EXPECT_EQ(accepted(a), accepted(b));
}

TEST(Problem, BiasBroadcastsBySizeOneAndByStrideZero) {
  ProblemBuilder by_size = ProblemBuilder::plain();
  by_size.set(Role::kBias, contiguous(VOLLEY_F32, {1, 1, 5, 7}));
  ProblemBuilder by_stride = ProblemBuilder::plain();
  by_stride.set(Role::kBias, contiguous(VOLLEY_F32, {2, 4, 5, 7}));
  by_stride[Role::kBias].stride[0] = by_stride[Role::kBias].stride[1] = 0;
  EXPECT_EQ(accepted(by_size), accepted(by_stride));
}

TEST(Problem, EqualWaysToSayCausal) {
  ProblemBuilder causal = ProblemBuilder::plain();
  causal.options.causal = 1;
  ProblemBuilder window = ProblemBuilder::plain();
  window.options.window_right = 0;
  EXPECT_EQ(accepted(causal), accepted(window));
}

TEST(Problem, AlignmentComesFromDataOrIsGiven) {
  alignas(128) static char memory[4096];
  ProblemBuilder builder = ProblemBuilder::plain();
  builder[Role::kQ].data = memory + 2;
  EXPECT_EQ(accepted(builder)[Role::kQ].alignment, 2);
  builder[Role::kQ].data = memory;
  EXPECT_EQ(accepted(builder)[Role::kQ].alignment, 128);
  builder[Role::kQ].alignment = 8;
  EXPECT_EQ(accepted(builder)[Role::kQ].alignment, 8);
}

TEST(Problem, OlderAndNewerStructs) {
  const ProblemBuilder builder = ProblemBuilder::plain();
  struct {
    volley_problem known;
    int64_t later;
  } newer{builder.build(), 0};
  newer.known.size = sizeof newer;
  Problem out;
  EXPECT_TRUE(make_problem(newer.known, &out).ok());
  newer.later = 1;
  EXPECT_EQ(make_problem(newer.known, &out).reason, VOLLEY_REASON_STRUCT);

  volley_problem older = builder.build();
  older.size = offsetof(volley_problem, dropout_p);
  older.dropout_p = 17;  // beyond its size: not read
  EXPECT_TRUE(make_problem(older, &out).ok());
  EXPECT_EQ(out.dropout_p, 0);
}

struct Bad {
  const char* name;
  int32_t reason;
  const char* sentence;  // a part of it
  std::function<void(ProblemBuilder&)> bend;
};

void PrintTo(const Bad& bad, std::ostream* out) { *out << bad.name; }

class BadProblem : public testing::TestWithParam<Bad> {};

TEST_P(BadProblem, IsRefusedWithASentence) {
  ProblemBuilder builder = ProblemBuilder::plain();
  GetParam().bend(builder);
  Problem out;
  const Status status = builder.make(&out);
  EXPECT_FALSE(status.ok());
  EXPECT_EQ(status.reason, GetParam().reason) << status.message;
  EXPECT_NE(status.message.find(GetParam().sentence), std::string::npos) << status.message;
}

using B = ProblemBuilder;
INSTANTIATE_TEST_SUITE_P(
    Sentences, BadProblem,
    testing::Values(Bad{"NoQ", VOLLEY_REASON_NULL, "q is NULL", [](B& b) { b.drop(Role::kQ); }},
                    Bad{"NoO", VOLLEY_REASON_NULL, "o is NULL", [](B& b) { b.drop(Role::kO); }},
                    Bad{"Uninitialised", VOLLEY_REASON_STRUCT, "volley_problem_init",
                        [](B& b) { b.options.size = 3; }},
                    Bad{"UnknownDtype", VOLLEY_REASON_DTYPE, "q.dtype is 0x7",
                        [](B& b) { b[Role::kQ].dtype = 7; }},
                    Bad{"IntegerQ", VOLLEY_REASON_DTYPE, "q is i32, wanted bf16",
                        [](B& b) { b[Role::kQ].dtype = VOLLEY_I32; }},
                    Bad{"MixedDtypes", VOLLEY_REASON_DTYPE, "k is fp16, wanted bf16",
                        [](B& b) { b[Role::kK].dtype = VOLLEY_F16; }},
                    Bad{"SixDims", VOLLEY_REASON_SHAPE, "k.ndim is 6",
                        [](B& b) { b[Role::kK].ndim = 6; }},
                    Bad{"ThreeDims", VOLLEY_REASON_SHAPE, "wanted 4 dims (b, sq, hq, d)",
                        [](B& b) {
                          b.set(Role::kQ, contiguous(VOLLEY_BF16, {5, 4, 64}));
                        }},
                    Bad{"NegativeShape", VOLLEY_REASON_SHAPE, "v.shape[1] is -7",
                        [](B& b) { b[Role::kV].shape[1] = -7; }},
                    Bad{"HeadsDoNotDivide", VOLLEY_REASON_SHAPE, "q has 4 heads and k has 3",
                        [](B& b) {
                          b.set(Role::kK, contiguous(VOLLEY_BF16, {2, 7, 3, 64}));
                        }},
                    Bad{"NoKeyHead", VOLLEY_REASON_SHAPE, "q has 4 heads and k has 0",
                        [](B& b) {
                          b.set(Role::kK, contiguous(VOLLEY_BF16, {2, 7, 0, 64}));
                        }},
                    Bad{"KHeadDim", VOLLEY_REASON_SHAPE, "k has head dim 32, q has 64",
                        [](B& b) {
                          b.set(Role::kK, contiguous(VOLLEY_BF16, {2, 7, 2, 32}));
                        }},
                    Bad{"HeadDimZero", VOLLEY_REASON_SHAPE, "q has head dim 0",
                        [](B& b) {
                          b.set(Role::kQ, contiguous(VOLLEY_BF16, {2, 5, 4, 0}));
                        }},
                    Bad{"HeadDimHuge", VOLLEY_REASON_SHAPE, "q has head dim 1025",
                        [](B& b) {
                          b.set(Role::kQ, contiguous(VOLLEY_BF16, {2, 5, 4, 1025}));
                        }},
                    Bad{"VLength", VOLLEY_REASON_SHAPE, "v has shape (2, 8, 2, 64)",
                        [](B& b) {
                          b.set(Role::kV, contiguous(VOLLEY_BF16, {2, 8, 2, 64}));
                        }},
                    Bad{"OShape", VOLLEY_REASON_SHAPE, "o has shape (2, 5, 4, 32)",
                        [](B& b) {
                          b.set(Role::kO, contiguous(VOLLEY_BF16, {2, 5, 4, 32}));
                        }},
                    Bad{"ODtype", VOLLEY_REASON_DTYPE, "o is fp16, wanted bf16 or fp32",
                        [](B& b) { b[Role::kO].dtype = VOLLEY_F16; }},
                    Bad{"LseShape", VOLLEY_REASON_SHAPE,
                        "lse has shape (2, 5, 4), wanted (b, hq, sq)",
                        [](B& b) {
                          b.set(Role::kLse, contiguous(VOLLEY_F32, {2, 5, 4}));
                        }},
                    Bad{"LseDtype", VOLLEY_REASON_DTYPE, "lse is bf16",
                        [](B& b) { b[Role::kLse].dtype = VOLLEY_BF16; }},
                    Bad{"Batches", VOLLEY_REASON_SHAPE, "q says b = 2, but k says b = 3",
                        [](B& b) {
                          b.set(Role::kK, contiguous(VOLLEY_BF16, {3, 7, 2, 64}));
                          b.set(Role::kV, contiguous(VOLLEY_BF16, {3, 7, 2, 64}));
                        }},
                    Bad{"StrideBeyond64Bits", VOLLEY_REASON_STRIDE,
                        "reaches beyond 64-bit addresses",
                        [](B& b) { b[Role::kK].stride[1] = int64_t{1} << 61; }},
                    Bad{"SizeBeyond64Bits", VOLLEY_REASON_STRIDE, "reaches beyond 64-bit addresses",
                        [](B& b) {
                          b[Role::kK].shape[0] = b[Role::kK].shape[1] = int64_t{1} << 32;
                          b[Role::kK].stride[0] = b[Role::kK].stride[1] = 0;
                        }},
                    Bad{"OverlappingO", VOLLEY_REASON_OVERLAP, "o has elements that share memory",
                        [](B& b) { b[Role::kO].stride[0] = 0; }},
                    Bad{"InterleavedLse", VOLLEY_REASON_OVERLAP, "lse has elements",
                        [](B& b) { b[Role::kLse].stride[1] = 1; }},
                    Bad{"AlignmentNotAPower", VOLLEY_REASON_ALIGNMENT, "q.alignment is 24",
                        [](B& b) { b[Role::kQ].alignment = 24; }},
                    Bad{"AlignmentBelowElement", VOLLEY_REASON_ALIGNMENT, "q is aligned to 1 bytes",
                        [](B& b) { b[Role::kQ].alignment = 1; }},
                    Bad{"DataBelowAlignment", VOLLEY_REASON_ALIGNMENT, "aligned to 2 only",
                        [](B& b) {
                          b[Role::kQ].data = reinterpret_cast<void*>(uintptr_t{0x10002});
                          b[Role::kQ].alignment = 16;
                        }},
                    Bad{"OtherDevice", VOLLEY_REASON_DEVICE, "k is on device 2:0, but q is on 1:0",
                        [](B& b) { b[Role::kK].device_type = VOLLEY_DEVICE_CUDA; }},
                    Bad{"UnknownDevice", VOLLEY_REASON_DEVICE, "q.device_type is 10",
                        [](B& b) { b[Role::kQ].device_type = 10; }},
                    Bad{"ReservedTensor", VOLLEY_REASON_STRUCT, "q.reserved is 1",
                        [](B& b) { b[Role::kQ].reserved = 1; }},
                    Bad{"Window", VOLLEY_REASON_WINDOW, "window_left is -3",
                        [](B& b) { b.options.window_left = -3; }},
                    Bad{"OffsetIgnored", VOLLEY_REASON_OPTION, "mask_offset is 4",
                        [](B& b) { b.options.mask_offset = 4; }},
                    Bad{"OffsetHuge", VOLLEY_REASON_RANGE, "mask_offset is",
                        [](B& b) {
                          b.options.mask_alignment = VOLLEY_ALIGN_EXPLICIT;
                          b.options.mask_offset = std::numeric_limits<int64_t>::max();
                        }},
                    Bad{"ScaleInfinite", VOLLEY_REASON_RANGE, "scale is inf",
                        [](B& b) { b.options.scale = std::numeric_limits<double>::infinity(); }},
                    Bad{"SoftcapNegative", VOLLEY_REASON_RANGE, "softcap is -1",
                        [](B& b) { b.options.softcap = -1; }},
                    Bad{"DropoutOne", VOLLEY_REASON_RANGE, "dropout_p is 1",
                        [](B& b) { b.options.dropout_p = 1; }},
                    Bad{"DropoutWithoutSeed", VOLLEY_REASON_NULL, "dropout_seed is NULL",
                        [](B& b) { b.options.dropout_p = 0.5; }},
                    Bad{"Op", VOLLEY_REASON_STRUCT, "op is 2", [](B& b) { b.options.op = 2; }},
                    Bad{"Backend", VOLLEY_REASON_STRUCT, "backend is 9",
                        [](B& b) { b.options.backend = 9; }},
                    Bad{"Hook", VOLLEY_REASON_HOOK, "score_hook is 1",
                        [](B& b) { b.options.score_hook = 1; }},
                    Bad{"MaxSms", VOLLEY_REASON_RANGE, "max_sms is -1",
                        [](B& b) { b.options.max_sms = -1; }},
                    Bad{"TwoSplits", VOLLEY_REASON_OPTION, "num_splits is 2 and split_size is 64",
                        [](B& b) {
                          b.options.num_splits = 2;
                          b.options.split_size = 64;
                        }},
                    Bad{"ForwardWithGradient", VOLLEY_REASON_OPTION,
                        "dq is given, but op is forward",
                        [](B& b) { b.set(Role::kDq, b[Role::kQ]); }},
                    Bad{"BackwardWithoutLse", VOLLEY_REASON_NULL,
                        "lse is NULL, the backward needs it",
                        [](B& b) { b.backward().drop(Role::kLse); }},
                    Bad{"GradientShape", VOLLEY_REASON_SHAPE, "dk has shape",
                        [](B& b) { b.backward()[Role::kDk].shape[1] = 6; }},
                    Bad{"DbiasWithoutBias", VOLLEY_REASON_NULL, "dbias is given, but bias is NULL",
                        [](B& b) {
                          b.backward().set(Role::kDbias, contiguous(VOLLEY_F32, {2, 4, 5, 7}));
                        }},
                    Bad{"DbiasShape", VOLLEY_REASON_SHAPE, "dbias has shape (2, 4, 5, 7)",
                        [](B& b) {
                          b.backward().set(Role::kBias, contiguous(VOLLEY_F32, {1, 4, 5, 7}));
                          b.set(Role::kDbias, contiguous(VOLLEY_F32, {2, 4, 5, 7}));
                        }},
                    Bad{"PagesWithoutLengths", VOLLEY_REASON_NULL, "seqused_k is NULL",
                        [](B& b) { b.set(Role::kPageTable, contiguous(VOLLEY_I32, {2, 3})); }},
                    Bad{"MaxOfDense", VOLLEY_REASON_OPTION, "max_seqlen_q is 4",
                        [](B& b) { b.options.max_seqlen_q = 4; }},
                    Bad{"CuDtype", VOLLEY_REASON_SHAPE, "q has shape (2, 5, 4, 64), wanted 3 dims",
                        [](B& b) { b.set(Role::kCuSeqlensQ, contiguous(VOLLEY_I64, {3})); }},
                    Bad{"UsedShape", VOLLEY_REASON_SHAPE,
                        "seqused_k has shape (3,), wanted (b) = (2,)",
                        [](B& b) { b.set(Role::kSequsedK, contiguous(VOLLEY_I32, {3})); }},
                    Bad{"SinkShape", VOLLEY_REASON_SHAPE, "sink has shape (2,)",
                        [](B& b) { b.set(Role::kSink, contiguous(VOLLEY_F32, {2})); }},
                    Bad{"BiasShape", VOLLEY_REASON_SHAPE, "bias has shape (2, 4, 5, 6)",
                        [](B& b) { b.set(Role::kBias, contiguous(VOLLEY_F32, {2, 4, 5, 6})); }},
                    Bad{"MaskDtype", VOLLEY_REASON_DTYPE, "mask is fp32, wanted bool",
                        [](B& b) { b.set(Role::kMask, contiguous(VOLLEY_F32, {2, 4, 5, 7})); }},
                    Bad{"DescaleOfBf16", VOLLEY_REASON_DTYPE, "descales need e4m3",
                        [](B& b) { b.set(Role::kKDescale, contiguous(VOLLEY_F32, {2, 2, 1})); }},
                    Bad{"DescaleShape", VOLLEY_REASON_SHAPE, "v_descale has shape (2, 2, 3)",
                        [](B& b) {
                          b = ProblemBuilder(VOLLEY_E4M3, 2, 5, 7, 4, 2, 64, 64);
                          b.set(Role::kVDescale, contiguous(VOLLEY_F32, {2, 2, 3}));
                        }},
                    Bad{"AlibiDtype", VOLLEY_REASON_DTYPE, "alibi_slopes is bf16",
                        [](B& b) { b.set(Role::kAlibiSlopes, contiguous(VOLLEY_BF16, {4})); }}),
    [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace volley::core
