// SPDX-License-Identifier: BSD-3-Clause
//
// Kernel: one compilation of attend.inc.h, as a constant. The files compiled for newer CPUs define
// such a constant and nothing else that can be seen from outside: they include no header with
// inline functions, of which the linker keeps one copy and could keep one that an older CPU cannot
// run. Read attend.inc.h next; choose.h picks a kernel.
#pragma once

#include <cstdint>

#include "cpu/gradient_tile.h"
#include "cpu/tile.h"

namespace volley::core {

struct Kernel {
  const char* name;            // as VOLLEY_CPU spells it
  void (*attend)(Tile* tile);  // fills m, l and o
  // The backward: writes dq, adds to dk and dv.
  void (*gradients)(const GradientTile& tile);
  // For the bias: dS of the key tile that starts at `key`, into dp, once the queries are loaded.
  void (*load_queries)(const GradientTile& tile);
  void (*logit_gradients)(const GradientTile& tile, int64_t key);
  // Sum of a * b over n elements, in order; one of b that is 0 adds nothing, whatever a has there.
  float (*dot)(const SourceRow& a, const SourceRow& b, int64_t n);
  // exp and tanh of n floats in place, n a multiple of 16: for tests.
  void (*exp)(float* x, int64_t n);
  void (*tanh)(float* x, int64_t n);
};

extern const Kernel kPortableKernel;
extern const Kernel kAvx2Kernel;
extern const Kernel kAvx512Kernel;

}  // namespace volley::core
