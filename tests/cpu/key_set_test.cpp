// SPDX-License-Identifier: BSD-3-Clause
//
// The key-set checks must be able to fail: a key dropped, a band shifted by one, a needle lost.
#include "key_set.h"

#include <gtest/gtest.h>

namespace volley::check {
namespace {

Case banded() {
  Case c;
  c.sq = 40;
  c.sk = 60;
  c.causal = true;
  c.left = 20;
  return c;
}

// What the judge says of a backend that computes `done` when `asked` was wanted.
template <class Judge>
std::string confusion(Instance done, const Case& asked, const Judge& judge) {
  EXPECT_TRUE(run(done, VOLLEY_BACKEND_REFERENCE).ok());
  done.c = asked;
  return judge(done).sentence;
}

std::string one_hot_confusion(const Case& done, const Case& asked) {
  return confusion(one_hot_instance(done, 0), asked,
                   [](const Instance& instance) { return judge_one_hot(instance, 0); });
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(KeySet, AcceptsTheReference) {
  EXPECT_EQ(one_hot_confusion(banded(), banded()), "");
  EXPECT_EQ(check_key_set(banded(), VOLLEY_BACKEND_REFERENCE).sentence, "");
}

TEST(KeySet, SeesABandShiftedByOne) {
  for (const int64_t shift : {-1, 1}) {
    Case shifted = banded();
    shifted.alignment = VOLLEY_ALIGN_EXPLICIT;
    shifted.offset = 20 + shift;
    EXPECT_NE(one_hot_confusion(shifted, banded()), "") << shift;
  }
}

TEST(KeySet, SeesAWindowWiderByOne) {
  Case wider = banded();
  wider.left = 21;
  EXPECT_TRUE(contains(one_hot_confusion(wider, banded()), "is seen, but should not be"));
  EXPECT_TRUE(contains(one_hot_confusion(banded(), wider), "is not seen, but should be"));
}

TEST(KeySet, SeesOneKeyDropped) {
  Case all;
  all.sq = 3;
  all.sk = 60;
  Case dropped = all;
  dropped.used_k = {59};
  const std::string sentence = one_hot_confusion(dropped, all);
  EXPECT_TRUE(contains(sentence, "wrong weight")) << sentence;  // 1/59 where 1/60 is wanted
}

TEST(KeySet, SeesOneKeyCountedTwice) {
  Instance instance = one_hot_instance(banded(), 0);
  ASSERT_TRUE(run(instance, VOLLEY_BACKEND_REFERENCE).ok());
  HostTensor& o = instance[Role::kO];
  o.set({0, 30, 0, 45}, 2 * o.at({0, 30, 0, 45}));
  EXPECT_TRUE(contains(judge_one_hot(instance, 0).sentence, "query 30: key 45"));
}

TEST(KeySet, SeesALostNeedle) {
  const std::vector<int64_t> keys{0, 20, 59};
  Case c = banded();
  c.set_heads(3, 3);
  const auto judge = [&](const Instance& instance) { return judge_needles(instance, keys); };
  EXPECT_EQ(confusion(needle_instance(c, keys), c, judge), "");
  Case narrower = c;
  narrower.left = 19;
  EXPECT_TRUE(
      contains(confusion(needle_instance(narrower, keys), c, judge), "is not seen, but should be"));
  Case wider = c;
  wider.left = 21;
  EXPECT_TRUE(
      contains(confusion(needle_instance(wider, keys), c, judge), "is seen, but should not be"));
}

}  // namespace
}  // namespace volley::check
