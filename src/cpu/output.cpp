// SPDX-License-Identifier: BSD-3-Clause
//
// See output.h. A row with l = 0 saw no key: O = 0, LSE = -inf. NaN in l makes the row NaN.
#include "cpu/output.h"

#include <cmath>
#include <cstring>

#include "dtype.h"

namespace volley::core {
namespace {

float encode_f32(float x) { return x; }

template <class Element>
void write_row(const float* o, float l, int64_t n, Element (*encode)(float), char* to,
               int64_t column) {
  for (int64_t c = 0; c < n; ++c) {
    const Element element = encode(l == 0 ? 0.0f : o[c] / l);
    std::memcpy(to + c * column, &element, sizeof element);
  }
}

void write_row(int32_t dtype, const float* o, float l, int64_t n, char* to, int64_t column) {
  switch (dtype) {
    case VOLLEY_F32: return write_row(o, l, n, encode_f32, to, column);
    case VOLLEY_F16: return write_row(o, l, n, float_to_f16, to, column);
    default: return write_row(o, l, n, float_to_bf16, to, column);
  }
}

}  // namespace

void write_tile(const Problem& problem, const Buffers& buffers, const Work& work,
                const TilePlace& place, const Tile& tile) {
  const Tensor& o = problem[Role::kO];
  const Tensor& lse = problem[Role::kLse];
  const int64_t bytes = dtype_size(o.dtype);
  for (int r = 0; r < tile.rows; ++r) {
    const int64_t row = place.sequence.q_begin + work.query(place, r);
    const int64_t head = work.head(place, r);
    const int64_t at = place.sequence.batch * o.stride[0] + row * o.stride[1] + head * o.stride[2];
    write_row(o.dtype, tile.o + r * tile.v_stride, tile.l[r], problem.dv,
              buffers.as<char>(Role::kO) + at * bytes, o.stride[3] * bytes);
    if (!lse.present) continue;
    const int64_t lse_at =
        place.sequence.batch * lse.stride[0] + head * lse.stride[1] + row * lse.stride[2];
    buffers.as<float>(Role::kLse)[lse_at] =
        static_cast<float>(tile.m[r] + std::log(static_cast<double>(tile.l[r])));
  }
}

}  // namespace volley::core
