// SPDX-License-Identifier: BSD-3-Clause
//
// Vec: as many floats as a register of the target holds, on Google Highway, whose target is what
// the compiler's flags allow (static dispatch). hn:: is Highway; what lies here are the few names
// that make the kernels read like formulas. Everything here and in the other .inc.h files has
// internal linkage: each is compiled once per instruction set.
#pragma once

#include <hwy/highway.h>

#include <cstdint>

namespace volley::core {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

static_assert(!HWY_HAVE_SCALABLE, "the kernels keep arrays of vectors: build for a fixed width");

// Tags: what type and how many lanes. The integers have as many lanes as the floats.
using Floats = hn::CappedTag<float, 16>;
using Ints = hn::Rebind<int32_t, Floats>;
using Words = hn::Rebind<uint32_t, Floats>;
constexpr Floats kFloats;
constexpr Ints kInts;
constexpr Words kWords;

using Vec = hn::Vec<Floats>;
using Mask = hn::Mask<Floats>;
constexpr int kLanes = hn::MaxLanes(Floats());

HWY_INLINE Vec splat(float x) { return hn::Set(kFloats, x); }
HWY_INLINE Vec zero() { return hn::Zero(kFloats); }
HWY_INLINE Vec load(const float* from) { return hn::LoadU(kFloats, from); }
HWY_INLINE void store(float* to, Vec x) { hn::StoreU(x, kFloats, to); }

constexpr float kInfinity = __builtin_inff();

}  // namespace
}  // namespace volley::core
