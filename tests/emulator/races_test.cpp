// SPDX-License-Identifier: BSD-3-Clause
//
// Mistakes that a GPU may hide show in the emulator: for some seed in a wrong result, or as one
// sentence.
#include <gtest/gtest.h>

#include <stdexcept>
#include <vector>

#include "cuda/ptx/mma.cuh"
#include "emulator/launch.h"

namespace volley::test {
namespace {

using namespace cuda;  // NOLINT: all of this file is about it
using emulator::launch;

constexpr int kThreads = 128;
constexpr int kSeeds = 30;

// In how many of kSeeds launches every thread returns 1 from `right`.
template <class Function>
int times_right(Function right) {
  int count = 0;
  for (int seed = 0; seed < kSeeds; ++seed) {
    std::vector<int> results(kThreads);
    launch(1, kThreads, 16 * kThreads, static_cast<uint64_t>(seed),
           [&] { results[threadIdx.x] = right(static_cast<int>(threadIdx.x)) ? 1 : 0; });
    count += results == std::vector<int>(kThreads, 1) ? 1 : 0;
  }
  return count;
}

// What the launch's exception says; "" if there is none.
std::string failure(const std::function<void()>& kernel) {
  try {
    launch(2, kThreads, 16 * kThreads, 1, kernel);
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return "";
}

bool holds(const std::string& text, const char* part) {
  return text.find(part) != std::string::npos;
}

int* numbers() { return reinterpret_cast<int*>(ptx::dynamic_shared()); }

// Threads of group `from`, of those with this number of threads, hand a number to the last group
// less `from`, twice, through the same place.
template <class Barrier, bool kBeforeReading, bool kBeforeWriting>
bool hands_over(int thread, int group_threads, int groups, int from) {
  const int group = thread / group_threads % groups, place = thread % group_threads;
  bool right = true;
  for (int round = 0; round < 2; ++round) {
    if (group == from) numbers()[place] = 1000 * round + place;
    if (kBeforeReading) Barrier()();
    if (group == groups - 1 - from) right = right && numbers()[place] == 1000 * round + place;
    if (kBeforeWriting) Barrier()();
  }
  return right;
}

struct Cta {
  void operator()() const { ptx::sync_cta(); }
};
struct Warp {
  void operator()() const { ptx::sync_warp(); }
};

// The first two warps, and the other two.
struct Half {
  void operator()() const { ptx::named_sync(1 + static_cast<int>(threadIdx.x) / 64, 64); }
};

template <class Barrier, bool kBeforeReading, bool kBeforeWriting>
int times_handed_over(int group_threads, int groups, int from) {
  return times_right([=](int thread) {
    return hands_over<Barrier, kBeforeReading, kBeforeWriting>(thread, group_threads, groups, from);
  });
}

TEST(Races, AMissingBarrierShows) {
  for (const int from : {0, 3}) {  // of four warps
    EXPECT_EQ((times_handed_over<Cta, true, true>(32, 4, from)), kSeeds);
    EXPECT_LT((times_handed_over<Cta, false, true>(32, 4, from)), kSeeds);
    EXPECT_LT((times_handed_over<Cta, true, false>(32, 4, from)), kSeeds);
  }
}

TEST(Races, AMissingNamedBarrierShows) {
  const auto hands = [](auto before_reading, auto before_writing) {
    return times_right([=](int thread) {
      bool right = true;
      for (int round = 0; round < 2; ++round) {
        const int other = thread ^ 32;  // in the other warp of the half
        numbers()[thread] = 1000 * round + thread;
        if (before_reading) Half()();
        right = right && numbers()[other] == 1000 * round + other;
        if (before_writing) Half()();
      }
      return right;
    });
  };
  EXPECT_EQ(hands(true, true), kSeeds);
  EXPECT_LT(hands(false, true), kSeeds);
  EXPECT_LT(hands(true, false), kSeeds);
}

// A half does not wait for the other: in some launch it has read before the other has written.
TEST(Races, ANamedBarrierIsNoBarrierOfTheCta) {
  EXPECT_LT(times_right([](int thread) {
              const int other = thread ^ 64;
              numbers()[thread] = thread;
              Half()();
              return numbers()[other] == other;
            }),
            kSeeds);
}

TEST(Races, AMissingWarpBarrierShows) {
  for (const int from : {0, 31}) {  // of 32 lanes, in all warps
    EXPECT_EQ((times_handed_over<Warp, true, true>(1, 32, from)), kSeeds);
    EXPECT_LT((times_handed_over<Warp, false, true>(1, 32, from)), kSeeds);
    EXPECT_LT((times_handed_over<Warp, true, false>(1, 32, from)), kSeeds);
  }
}

std::string order_of_warps(uint64_t seed) {
  std::string order;  // a warp after the other appends to it: there is one CTA
  launch(1, kThreads, 0, seed, [&] {
    for (int phase = 0; phase < 4; ++phase) {
      if (threadIdx.x % 32 == 0) order += static_cast<char>('0' + threadIdx.x / 32);
      ptx::sync_cta();
    }
  });
  return order;
}

TEST(Races, OrdersAreDrawn) {
  EXPECT_EQ(order_of_warps(1), order_of_warps(1));
  EXPECT_NE(order_of_warps(1), order_of_warps(2));
  const std::string order = order_of_warps(1), phase = order.substr(0, 4);
  EXPECT_NE(order, phase + phase + phase + phase);
}

alignas(16) const int kSource[4] = {1, 2, 3, 4};

char* own_vector(int thread) { return ptx::dynamic_shared() + 16 * thread; }

// Copies, in two groups, of which the first is read. kLeft < 0: without a wait.
template <int kLeft, bool kCommits = true>
bool reads_copy(int thread) {
  auto* const place = reinterpret_cast<int*>(own_vector(thread));
  ptx::copy_async(place, kSource, 12);
  if (kCommits) ptx::commit_copies();
  ptx::copy_async(own_vector(thread ^ 1) + 2048, kSource, 16);
  ptx::commit_copies();
  if constexpr (kLeft >= 0) ptx::wait_copies<kLeft>();
  return place[0] == 1 && place[2] == 3 && place[3] == 0;
}

template <class Function>
int times_right_of_copies(Function right) {
  int count = 0;
  for (int seed = 0; seed < kSeeds; ++seed) {
    bool result = true;
    launch(1, 32, 4096, static_cast<uint64_t>(seed), [&] {
      if (!right(static_cast<int>(threadIdx.x))) result = false;
    });
    count += result ? 1 : 0;
  }
  return count;
}

TEST(Races, ACopyIsThereAfterItsWait) {
  EXPECT_EQ(times_right_of_copies(reads_copy<1>), kSeeds);
  EXPECT_EQ(times_right_of_copies(reads_copy<0>), kSeeds);
}

TEST(Races, AMissingWaitShows) {
  EXPECT_LT(times_right_of_copies(reads_copy<2>), kSeeds);
  EXPECT_LT(times_right_of_copies(reads_copy<-1>), kSeeds);
  const int uncommitted = times_right_of_copies(reads_copy<1, false>);
  EXPECT_LT(uncommitted, kSeeds);
  EXPECT_GT(uncommitted, 0);
}

TEST(Races, ACopyOfOtherThreadsNeedsABarrierToo) {
  const auto reads = [](bool barrier) {
    return times_right([=](int thread) {
      ptx::copy_async(own_vector(thread), kSource, 16);
      ptx::commit_copies();
      ptx::wait_copies<0>();
      if (barrier) ptx::sync_cta();
      return reinterpret_cast<int*>(own_vector((thread + 32) % kThreads))[0] == 1;
    });
  };
  EXPECT_EQ(reads(true), kSeeds);
  EXPECT_LT(reads(false), kSeeds);
}

TEST(Races, ASourceIsReadUntilTheWait) {
  const auto copies = [](bool waits) {
    return times_right([=](int thread) {
      alignas(16) int source[4] = {thread};
      ptx::copy_async(own_vector(thread), source, 16);
      ptx::commit_copies();
      if (waits) ptx::wait_copies<0>();
      source[0] = -1;
      ptx::wait_copies<0>();
      return reinterpret_cast<int*>(own_vector(thread))[0] == thread;
    });
  };
  EXPECT_EQ(copies(true), kSeeds);
  EXPECT_LT(copies(false), kSeeds);
}

// A copy that nobody waits for lands in what the memory was then used for.
TEST(Races, AForgottenCopyShows) {
  const auto reuses = [](bool waits) {
    return times_right([=](int thread) {
      ptx::copy_async(own_vector(thread), kSource, 16);
      ptx::commit_copies();
      if (waits) ptx::wait_copies<0>();
      ptx::sync_cta();
      auto* const place = reinterpret_cast<int*>(own_vector(thread));
      *place = 99;
      ptx::sync_cta();
      return *place == 99;
    });
  };
  EXPECT_EQ(reuses(true), kSeeds);
  EXPECT_LT(reuses(false), kSeeds);
}

TEST(Races, ACopyOfNothingReadsNothing) {
  EXPECT_EQ(times_right([](int thread) {
              ptx::copy_async(own_vector(thread), nullptr, 0);
              ptx::commit_copies();
              ptx::wait_copies<0>();
              const auto* const place = reinterpret_cast<const int*>(own_vector(thread));
              return place[0] == 0 && place[1] == 0 && place[2] == 0 && place[3] == 0;
            }),
            kSeeds);
}

TEST(Races, SharedMemoryStartsAsNan) {
  EXPECT_EQ(times_right([](int thread) {
              const auto* const place = reinterpret_cast<const float*>(own_vector(thread));
              return place[0] != place[0] && place[3] != place[3];
            }),
            kSeeds);
}

TEST(Failures, ADeadlockAtANamedBarrierIsASentence) {
  EXPECT_TRUE(holds(failure([] {
                      if (threadIdx.x < 64) {
                        ptx::named_sync(3, 96);
                      } else {
                        ptx::sync_cta();
                      }
                    }),
                    "is deadlocked: warps 0-1 wait at barrier 3, warps 2-3 wait at sync_cta"));
  EXPECT_TRUE(holds(failure([] { ptx::named_sync(16, 64); }), "named_sync of barrier 16"));
  EXPECT_TRUE(holds(failure([] { ptx::named_sync(1, 48); }), "and 48 threads"));
}

TEST(Failures, ADeadlockIsASentence) {
  const std::string sentence = failure([] {
    if (threadIdx.x / 32 != 2) ptx::sync_cta();
  });
  EXPECT_TRUE(holds(sentence,
                    "is deadlocked: warps 0-1, 3 wait at sync_cta, but warps 2 are at "
                    "the end of the kernel"))
      << sentence;
}

TEST(Failures, DivergenceIsASentence) {
  std::string sentence = failure([] {
    if (threadIdx.x % 32 == 7) return;
    ptx::any(true);
  });
  EXPECT_TRUE(holds(sentence,
                    "diverged: lanes 0-6, 8-31 are at a vote, lanes 7 are at the end of "
                    "the kernel"))
      << sentence;
  sentence = failure([] {
    u32 r[4];
    if (threadIdx.x % 2 == 0) {
      ptx::load_matrices(ptx::dynamic_shared(), r);
    } else {
      ptx::load_transposed(ptx::dynamic_shared(), r);
    }
  });
  EXPECT_TRUE(holds(sentence, "lanes 0, 2, 4, ")) << sentence;
  EXPECT_TRUE(holds(sentence, "30 are at load_matrices, lanes 1, 3, ")) << sentence;
}

TEST(Failures, AWarpThatComesToABarrierInPartsIsASentence) {
  const std::string sentence = failure([] {
    if (threadIdx.x < 100) ptx::sync_cta();
  });
  EXPECT_TRUE(holds(sentence,
                    "warp 3 has diverged: lanes 0-3 are at sync_cta, lanes 4-31 are at "
                    "the end of the kernel"))
      << sentence;
}

TEST(Failures, WritesAroundSharedMemoryAreSeen) {
  EXPECT_EQ(failure([] { own_vector(static_cast<int>(threadIdx.x))[15] = 1; }), "");
  EXPECT_TRUE(holds(failure([] { own_vector(static_cast<int>(threadIdx.x))[16] = 1; }),
                    "has written before or behind its 2048 bytes of shared memory"));
  EXPECT_TRUE(holds(failure([] { own_vector(static_cast<int>(threadIdx.x))[-1] = 1; }),
                    "has written before or behind"));
}

TEST(Failures, AddressesAreChecked) {
  const auto loads = [](int offset) {
    return failure([=] {
      u32 r[4];
      ptx::load_matrices(own_vector(static_cast<int>(threadIdx.x)) + offset, r);
    });
  };
  EXPECT_EQ(loads(0), "");
  EXPECT_TRUE(
      holds(loads(8), "bytes behind the begin of shared memory; wanted is a multiple of 16"));
  EXPECT_TRUE(holds(loads(16), "thread 127: load_matrices of a row 2048 bytes behind"));
  const auto copies = [](int to, int from, int bytes) {
    return failure([=] {
      ptx::copy_async(ptx::dynamic_shared() + to, reinterpret_cast<const char*>(kSource) + from,
                      bytes);
    });
  };
  EXPECT_EQ(copies(2032, 0, 16), "");
  EXPECT_TRUE(holds(copies(2048, 0, 16), "copy_async to outside of shared memory"));
  EXPECT_TRUE(holds(copies(8, 0, 16), "wanted are multiples of 16"));
  EXPECT_TRUE(holds(copies(0, 4, 4), "wanted are multiples of 16"));
  EXPECT_TRUE(holds(copies(0, 0, 17), "copy_async of 17 bytes"));
  const auto copies_number = [](int to, int from, int bytes) {
    return failure([=] {
      ptx::copy_number_async(reinterpret_cast<float*>(ptx::dynamic_shared() + to),
                             reinterpret_cast<const float*>(kSource) + from, bytes);
    });
  };
  EXPECT_EQ(copies_number(2044, 1, 4), "");
  EXPECT_TRUE(holds(copies_number(2048, 0, 4), "copy_async to outside of shared memory"));
  EXPECT_TRUE(holds(copies_number(2, 0, 4), "wanted are multiples of 4"));
  EXPECT_TRUE(holds(copies_number(0, 0, 5), "copy_async of 5 bytes"));
}

TEST(Failures, TrapEndsTheLaunch) {
  EXPECT_TRUE(holds(failure([] {
                      if (threadIdx.x == 5) ptx::trap();
                      ptx::sync_cta();
                    }),
                    "thread 5: trap"));
}

TEST(Failures, AShapeThatNoGpuTakesIsRefused) {
  EXPECT_THROW(launch(1, 33, 0, 1, [] {}), std::invalid_argument);
  EXPECT_THROW(launch(1, 1056, 0, 1, [] {}), std::invalid_argument);
  EXPECT_THROW(launch(0, 32, 0, 1, [] {}), std::invalid_argument);
}

}  // namespace
}  // namespace volley::test
