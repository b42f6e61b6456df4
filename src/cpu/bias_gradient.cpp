// SPDX-License-Identifier: BSD-3-Clause
//
// dbias = dS, summed over each axis where dbias has size 1. A block of dbias is computed by one
// thread, which goes through all pairs that it sums over, in order, and computes their dS once
// more: so the bits do not depend on the threads, and nothing is stored. Sums are in float64.
#include <algorithm>
#include <vector>

#include "cpu/backward.h"
#include "cpu/gradient_output.h"
#include "cpu/thread_pool.h"

namespace volley::core {
namespace {

// A range of one axis of the pairs.
struct Range {
  int64_t begin = 0;
  int64_t end = 0;
};

class BiasGradient {
 public:
  explicit BiasGradient(const GradientWork& work)
      : work_(work), problem_(work.problem()), dbias_(work.view(Role::kDbias)) {
    for (size_t axis = 0; axis < 4; ++axis) {
      const int64_t size = dbias_.tensor->shape[axis];
      blocks_[axis] = (size + kBlock[axis] - 1) / kBlock[axis];
    }
  }

  int64_t blocks() const { return blocks_[0] * blocks_[1] * blocks_[2] * blocks_[3]; }

  // The sums of block `index`, then its elements.
  void compute(int64_t index, int worker) const {
    std::array<int64_t, 4> block{};
    for (size_t axis = 4; axis-- > 0; index /= blocks_[axis]) block[axis] = index % blocks_[axis];
    std::vector<double> sums(kBlock[2] * kBlock[3], 0.0);
    const Range n = range(0, block, problem_.b);
    const Range h = range(1, block, problem_.hq);
    for (int64_t sequence = n.begin; sequence < n.end; ++sequence) {
      for (int64_t head = h.begin; head < h.end; ++head) {
        add_head(sequence, head, block, worker, &sums);
      }
    }
    put(block, sums);
  }

 private:
  // A block is one sequence, one head and one tile, or less.
  static constexpr std::array<int64_t, 4> kBlock{1, 1, kTileRows, kTileKeys};

  bool summed(size_t axis) const { return dbias_.tensor->shape[axis] == 1; }

  // What a block covers of an axis that has `size` elements in the problem.
  Range range(size_t axis, const std::array<int64_t, 4>& block, int64_t size) const {
    if (summed(axis)) return {0, size};
    const int64_t begin = block[axis] * kBlock[axis];
    return {std::min(begin, size), std::min(begin + kBlock[axis], size)};
  }

  void add_head(int64_t n, int64_t h, const std::array<int64_t, 4>& block, int worker,
                std::vector<double>* sums) const {
    const Sequence sequence = work_.sequence(n);
    const Range rows = range(2, block, sequence.sq);
    const Range keys = range(3, block, sequence.sk);
    GradientTile tile;
    for (int64_t i = rows.begin; i < rows.end; i += kTileRows) {
      work_.fill(work_.place(n, sequence, h, 1, i / kTileRows), worker, &tile);
      work_.kernel().load_queries(tile);
      const int64_t end = std::min(keys.end, tile.pairs.end);
      for (int64_t key = keys.begin; key < end; key += kTileKeys) {
        if (key + kTileKeys <= tile.pairs.begin) continue;
        work_.kernel().logit_gradients(tile, key);
        add_tile(tile, std::min<int64_t>(kTileKeys, sequence.sk - key), sums->data());
      }
    }
  }

  void add_tile(const GradientTile& tile, int64_t keys, double* sums) const {
    const int64_t row = summed(2) ? 0 : kBlock[3];
    const int64_t column = summed(3) ? 0 : 1;
    for (int64_t j = 0; j < keys; ++j) {
      const float* ds = tile.dp + j * kGradientStride;
      for (int64_t r = 0; r < tile.pairs.rows; ++r) sums[r * row + j * column] += ds[r];
    }
  }

  void put(const std::array<int64_t, 4>& block, const std::vector<double>& sums) const {
    const auto& shape = dbias_.tensor->shape;
    const Range rows{block[2] * kBlock[2], std::min((block[2] + 1) * kBlock[2], shape[2])};
    const Range keys{block[3] * kBlock[3], std::min((block[3] + 1) * kBlock[3], shape[3])};
    for (int64_t i = rows.begin; i < rows.end; ++i) {
      for (int64_t j = keys.begin; j < keys.end; ++j) {
        const auto at = static_cast<size_t>((i - rows.begin) * kBlock[3] + j - keys.begin);
        put_element(dbias_, problem_.accumulate_grads, sums[at],
                    dbias_.offset(block[0], block[1], i, j));
      }
    }
  }

  const GradientWork& work_;
  const Problem& problem_;
  const View dbias_;
  std::array<int64_t, 4> blocks_{};
};

}  // namespace

void bias_gradient(const GradientWork& work, int threads) {
  const BiasGradient gradient(work);
  parallel_for(gradient.blocks(), threads,
               [&](int64_t block, int worker) { gradient.compute(block, worker); });
}

}  // namespace volley::core
