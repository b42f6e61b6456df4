// SPDX-License-Identifier: BSD-3-Clause
//
// contents.h: impossible lengths, pages and scales are refused with index, found and wanted, before
// any output is touched; values that no row reaches are not looked at.
#include "reference_call.h"

namespace volley::check {
namespace {

Call packed_call() {
  Call call;
  call.q = tensor_of(VOLLEY_F32, {8, 2, 4}, {1});
  call.k = tensor_of(VOLLEY_F32, {8, 2, 4}, {1});
  call.v = tensor_of(VOLLEY_F32, {8, 2, 4}, {1});
  call.cu_seqlens_q = lengths({0, 3, 8});
  call.cu_seqlens_k = lengths({0, 3, 8});
  call.options.max_seqlen_q = 5;
  call.options.max_seqlen_k = 5;
  call.add_outputs(VOLLEY_F32);
  return call;
}

Call paged_call() {
  Call call;
  call.q = tensor_of(VOLLEY_E4M3, {2, 3, 2, 4}, {1});
  call.k = tensor_of(VOLLEY_E4M3, {4, 6, 2, 4}, {1});
  call.v = tensor_of(VOLLEY_E4M3, {4, 6, 2, 4}, {1});
  call.page_table = tensor_of(VOLLEY_I32, {2, 2}, {3, 1, 2, -7});
  call.seqused_k = lengths({8, 6});
  call.options.k_scale_block = 4;
  call.k_descale = tensor_of(VOLLEY_F32, {4, 2, 2}, {1});
  call.add_outputs(VOLLEY_F32);
  return call;
}

void expect_refusal(Call call, const std::string& message) {
  call.o.poison();
  call.lse.poison();
  EXPECT_EQ(call.run(VOLLEY_OP_FORWARD), VOLLEY_INVALID_ARGUMENT) << message;
  EXPECT_EQ(call.error.reason, VOLLEY_REASON_CONTENTS);
  EXPECT_EQ(std::string(call.error.message), message);
  EXPECT_TRUE(call.o.untouched());
  EXPECT_TRUE(call.lse.untouched());
}

TEST(Contents, GoodValuesPass) {
  packed_call().forward();
  paged_call().forward();
}

TEST(Contents, CumulativeLengths) {
  Call call = packed_call();
  call.cu_seqlens_q = lengths({1, 3, 8});
  expect_refusal(call, "cu_seqlens_q[0] is 1; it must be 0");
  call = packed_call();
  call.cu_seqlens_k = lengths({0, 5, 3});
  expect_refusal(call,
                 "cu_seqlens_k[2] is 3, below cu_seqlens_k[1] = 5; cumulative lengths must not "
                 "decrease");
  call = packed_call();
  call.cu_seqlens_q = lengths({0, 4, 9});
  expect_refusal(call, "cu_seqlens_q[2] is 9, past the end of q, which has 8 rows");
  call = packed_call();
  call.cu_seqlens_k = lengths({0, 6, 8});
  expect_refusal(call, "cu_seqlens_k gives sequence 0 a length of 6; max_seqlen_k is 5");
  call = packed_call();
  call.cu_seqlens_k = lengths({0, -2147483648.0, 8});
  expect_refusal(call,
                 "cu_seqlens_k[1] is -2147483648, below cu_seqlens_k[0] = 0; cumulative lengths "
                 "must not decrease");
}

TEST(Contents, UsedLengths) {
  Call call = packed_call();
  call.seqused_q = lengths({4, 5});
  expect_refusal(call, "seqused_q[0] is 4; wanted 0 to 3, the rows that sequence 0 has");
  call.seqused_q = lengths({3, -1});
  expect_refusal(call, "seqused_q[1] is -1; wanted 0 to 5, the rows that sequence 1 has");
  call = paged_call();
  call.seqused_k = lengths({8, 13});
  expect_refusal(call, "seqused_k[1] is 13; wanted 0 to 12, the rows that sequence 1 has");
}

TEST(Contents, PageTable) {
  Call call = paged_call();
  call.page_table.set({0, 1}, 4);
  expect_refusal(call, "page_table[0][1] is 4; wanted 0 to 3, since k has 4 pages");
  call.page_table.set({0, 1}, -1);
  expect_refusal(call, "page_table[0][1] is -1; wanted 0 to 3, since k has 4 pages");
  call = paged_call();
  call.seqused_k = lengths({8, 7});  // now the unused -7 is used
  expect_refusal(call, "page_table[1][1] is -7; wanted 0 to 3, since k has 4 pages");
}

TEST(Contents, Scales) {
  for (const auto& [value, text] : {std::pair{0.0, "0"}, std::pair{-1.0, "-1"},
                                    std::pair{kNan, "nan"}, std::pair{kInf, "inf"}}) {
    Call call = paged_call();
    call.k_descale.set({2, 1, 1}, value);  // rows 4 and 5 of page 2, in use
    expect_refusal(
        call, std::string("k_descale[2][1][1] is ") + text + "; wanted a finite value above 0");
    call = paged_call();
    call.k_descale.set({1, 0, 1}, value);  // rows 4 and 5 of page 1: unused
    call.k_descale.set({0, 0, 0}, value);  // an unused page
    call.forward();
    call.q_descale = tensor_of(VOLLEY_F32, {2, 2, 1}, {1});
    call.q_descale.set({1, 0, 0}, value);
    expect_refusal(
        call, std::string("q_descale[1][0][0] is ") + text + "; wanted a finite value above 0");
    call.seqused_q = lengths({3, 0});
    call.forward();
  }
  Call call = paged_call();
  call.v_descale = HostTensor(VOLLEY_E8M0, {1, 1, 1});  // poisoned: 0xff, the NaN of e8m0
  expect_refusal(call, "v_descale[0][0][0] is nan; wanted a finite value above 0");
}

TEST(Contents, AFailedCallLeavesTheNextWorking) {
  Call call = packed_call();
  call.cu_seqlens_q = lengths({1, 3, 8});
  EXPECT_NE(call.run(VOLLEY_OP_FORWARD), VOLLEY_OK);
  call.cu_seqlens_q = lengths({0, 3, 8});
  call.forward();
  expect_all(call.o, 1);
}

}  // namespace
}  // namespace volley::check
