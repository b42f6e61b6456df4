// SPDX-License-Identifier: BSD-3-Clause
//
// The probes that a GPU runs in tests/cuda/ptx_test.cpp, by the emulator: the same inputs, the same
// expected values, in many orders of warps and copies.
#include <gtest/gtest.h>

#include "emulator/launch.h"
#include "mma_probes.cuh"

namespace volley::test {
namespace {

template <class Probe>
void check() {
  for (uint64_t seed = 0; seed < 30; ++seed) {
    Probe x;
    emulator::launch(1, Probe::kThreads, Probe::kShared, seed, [&] { probe(x); });
    ASSERT_NO_FATAL_FAILURE(x.check()) << "seed " << seed;
  }
}

TEST(EmulatedProbes, LoadMatrices) { check<LoadedMatrices>(); }
TEST(EmulatedProbes, MultiplyBf16) { check<Product<cuda::Element::kBf16>>(); }
TEST(EmulatedProbes, MultiplyFp16) { check<Product<cuda::Element::kF16>>(); }
TEST(EmulatedProbes, CopyAsynchronously) { check<AsyncCopies>(); }
TEST(EmulatedProbes, SynchronizePairsOfWarps) { check<PairedWarps>(); }
TEST(EmulatedProbes, AddAtomically) { check<AtomicSums>(); }
TEST(EmulatedProbes, ShuffleAndVote) { check<WarpWords>(); }
TEST(EmulatedProbes, Convert) { check<Conversions>(); }

}  // namespace
}  // namespace volley::test
