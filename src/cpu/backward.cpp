// SPDX-License-Identifier: BSD-3-Clause
//
// One sequence and key head at a time, its query rows tile by tile; a tile writes its dq and adds
// to fp32 sums of dk and dv. The tiles of a head are cut into chunks by the sequence's length
// alone, each with sums of its own that are added up in order: so the bits do not depend on the
// number of threads nor on the batch. Where there are heads enough for all threads, a thread
// computes whole heads one chunk after the other; else chunks run side by side. With pages, rows of
// dk and dv are added to sums of the pages, sequence by sequence.
#include "cpu/backward.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "cpu/gradient_output.h"
#include "cpu/kernel/choose.h"
#include "cpu/thread_pool.h"

namespace volley::core {
namespace {

constexpr int64_t kMostChunks = 8;
constexpr int64_t kLeastChunkTiles = 4;
constexpr int64_t kHeadsPerThread = 4;  // from which on threads take whole heads

// All query heads of one key head of one sequence.
struct KeyHead {
  int64_t n = 0;
  int64_t head = 0;
  Sequence sequence;
  int64_t tiles = 0;
  int64_t chunk_tiles = 0;
  int64_t chunks = 0;
  int64_t sums = 0;  // where the sums of its first chunk are
};

struct Chunk {
  int64_t key_head = 0;  // index
  int64_t number = 0;
};

class Backward {
 public:
  Backward(const Plan& plan, const Buffers& buffers, const Kernel& kernel)
      : problem_(plan.problem),
        buffers_(buffers),
        work_(problem_, buffers, kernel),
        threads_(static_cast<int>(std::clamp<int64_t>(work_.tiles(), 1, plan.config.threads))),
        key_heads_(problem_.b * problem_.hk),
        width_(work_.k_stride() + work_.v_stride()) {}

  Status run();

 private:
  bool takes_whole_heads() const {
    return problem_.page == 0 && key_heads_ >= kHeadsPerThread * threads_;
  }
  KeyHead key_head(int64_t index) const;
  int64_t next_wave(int64_t begin, std::vector<KeyHead>* wave) const;
  Status allocate();
  void whole_heads();
  void waves();
  void compute_chunk(const KeyHead& head, int64_t chunk, int worker, float* sums) const;
  void add_chunks(const std::vector<KeyHead>& wave);
  void put_keys(const KeyHead& head, const float* sums) const;
  void add_to_pages(const KeyHead& head, const float* sums);
  void put_pages() const;
  void sink_gradient() const;

  // Sums of a chunk: (sk, k_stride) of dk, then (sk, v_stride) of dv.
  int64_t dv_begin(const KeyHead& head) const { return head.sequence.sk * work_.k_stride(); }
  int64_t sums_size(const KeyHead& head) const { return head.sequence.sk * width_; }

  const Problem& problem_;
  const Buffers& buffers_;
  GradientWork work_;
  const int threads_;
  const int64_t key_heads_;
  const int64_t width_;  // of a key's row of sums: dk, dv
  int64_t longest_ = 0;  // sums of one chunk of any head
  Scratch sums_;
  Scratch page_sums_;  // (pages, page, hk, width)
};

KeyHead Backward::key_head(int64_t index) const {
  KeyHead head;
  head.n = index / problem_.hk;
  head.head = index % problem_.hk;
  head.sequence = work_.sequence(head.n);
  head.tiles = (head.sequence.sq * problem_.group() + kTileRows - 1) / kTileRows;
  head.chunk_tiles = std::max(kLeastChunkTiles, (head.tiles + kMostChunks - 1) / kMostChunks);
  head.chunks = std::max<int64_t>(1, (head.tiles + head.chunk_tiles - 1) / head.chunk_tiles);
  return head;
}

// Heads from `begin` on whose chunks keep all threads busy, or that are small; returns their end.
int64_t Backward::next_wave(int64_t begin, std::vector<KeyHead>* wave) const {
  constexpr int64_t kSmall = 1 << 18;  // floats a thread
  wave->clear();
  int64_t chunks = 0;
  int64_t size = 0;
  int64_t index = begin;
  while (index < key_heads_ && (chunks < kHeadsPerThread * threads_ || size < kSmall * threads_)) {
    KeyHead head = key_head(index++);
    head.sums = size;
    chunks += head.chunks;
    size += head.chunks * sums_size(head) + kScratchAlignment;
    wave->push_back(head);
  }
  return index;
}

Status Backward::allocate() {
  VOLLEY_TRY(work_.allocate(threads_));
  if (takes_whole_heads()) {
    for (int64_t n = 0; n < problem_.b; ++n) {
      longest_ = std::max(longest_, sums_size(key_head(n * problem_.hk)));
    }
    return sums_.allocate(threads_ * 2 * longest_);
  }
  std::vector<KeyHead> wave;
  int64_t most = 0;
  for (int64_t begin = 0; begin < key_heads_;) {
    begin = next_wave(begin, &wave);
    most = std::max(most, wave.back().sums + wave.back().chunks * sums_size(wave.back()));
  }
  VOLLEY_TRY(sums_.allocate(most));
  if (problem_.page == 0) return {};
  const auto& shape = problem_[Role::kDk].shape;
  const int64_t pages = shape[0] * shape[1] * shape[2] * width_;
  VOLLEY_TRY(page_sums_.allocate(pages));
  std::fill_n(page_sums_.at(0), pages, 0.0f);
  return {};
}

Status Backward::run() {
  VOLLEY_TRY(allocate());
  clear_unused_rows(problem_, buffers_, threads_);
  work_.compute_shifts(threads_);
  if (takes_whole_heads()) {
    whole_heads();
  } else {
    waves();
  }
  if (problem_.page > 0) put_pages();
  if (problem_.has(Role::kDsink)) sink_gradient();
  if (problem_.has(Role::kDbias)) bias_gradient(work_, threads_);
  return {};
}

void Backward::whole_heads() {
  parallel_for(key_heads_, threads_, [&](int64_t index, int worker) {
    const KeyHead head = key_head(index);
    float* total = sums_.at(worker * 2 * longest_);
    float* next = total + longest_;
    compute_chunk(head, 0, worker, total);
    for (int64_t chunk = 1; chunk < head.chunks; ++chunk) {
      compute_chunk(head, chunk, worker, next);
      for (int64_t i = 0; i < sums_size(head); ++i) total[i] += next[i];
    }
    put_keys(head, total);
  });
}

// The last chunks of all heads come first: with a causal mask they see the most keys.
void Backward::waves() {
  std::vector<KeyHead> wave;
  std::vector<Chunk> chunks;
  for (int64_t begin = 0; begin < key_heads_;) {
    begin = next_wave(begin, &wave);
    chunks.clear();
    for (int64_t number = kMostChunks; number-- > 0;) {
      for (size_t i = 0; i < wave.size(); ++i) {
        if (number < wave[i].chunks) chunks.push_back({static_cast<int64_t>(i), number});
      }
    }
    parallel_for(static_cast<int64_t>(chunks.size()), threads_, [&](int64_t task, int worker) {
      const Chunk& chunk = chunks[static_cast<size_t>(task)];
      const KeyHead& head = wave[static_cast<size_t>(chunk.key_head)];
      compute_chunk(head, chunk.number, worker,
                    sums_.at(head.sums + chunk.number * sums_size(head)));
    });
    add_chunks(wave);
  }
}

void Backward::compute_chunk(const KeyHead& head, int64_t chunk, int worker, float* sums) const {
  std::fill_n(sums, sums_size(head), 0.0f);
  const View dq = work_.view(Role::kDq);
  GradientTile tile;
  tile.dk = sums;
  tile.dv = sums + dv_begin(head);
  const int64_t end = std::min((chunk + 1) * head.chunk_tiles, head.tiles);
  for (int64_t t = chunk * head.chunk_tiles; t < end; ++t) {
    const int64_t group = problem_.group();
    const TilePlace place = work_.place(head.n, head.sequence, head.head * group, group, t);
    work_.fill(place, worker, &tile);
    work_.kernel().gradients(tile);
    for (int r = 0; r < place.rows; ++r) {
      put_row(dq, problem_.accumulate_grads, tile.dq + r * work_.k_stride(), head.sequence.batch,
              head.sequence.q_begin + Work::query(place, r), Work::head(place, r));
    }
  }
}

// Adds up the chunks of each head, in order, and writes the rows. Pages may be shared by the
// sequences of a wave, but not by key heads.
void Backward::add_chunks(const std::vector<KeyHead>& wave) {
  const auto total = [&](const KeyHead& head) {
    float* sums = sums_.at(head.sums);
    for (int64_t chunk = 1; chunk < head.chunks; ++chunk) {
      const float* next = sums + chunk * sums_size(head);
      for (int64_t i = 0; i < sums_size(head); ++i) sums[i] += next[i];
    }
    return sums;
  };
  if (problem_.page == 0) {
    parallel_for(static_cast<int64_t>(wave.size()), threads_, [&](int64_t i, int) {
      const KeyHead& head = wave[static_cast<size_t>(i)];
      put_keys(head, total(head));
    });
    return;
  }
  parallel_for(problem_.hk, threads_, [&](int64_t h, int) {
    for (const KeyHead& head : wave) {
      if (head.head == h) add_to_pages(head, total(head));
    }
  });
}

void Backward::put_keys(const KeyHead& head, const float* sums) const {
  const View dk = work_.view(Role::kDk);
  const View dv = work_.view(Role::kDv);
  const Sequence& s = head.sequence;
  for (int64_t j = 0; j < s.sk; ++j) {
    put_row(dk, problem_.accumulate_grads, sums + j * work_.k_stride(), s.batch_k, s.k_begin + j,
            head.head);
    put_row(dv, problem_.accumulate_grads, sums + dv_begin(head) + j * work_.v_stride(), s.batch_k,
            s.k_begin + j, head.head);
  }
}

void Backward::add_to_pages(const KeyHead& head, const float* sums) {
  const View table = work_.view(Role::kPageTable);
  const auto add = [](float* to, const float* from, int64_t n) {
    for (int64_t i = 0; i < n; ++i) to[i] += from[i];
  };
  for (int64_t j = 0; j < head.sequence.sk; ++j) {
    const auto page = static_cast<int64_t>(table.at(head.n, j / problem_.page));
    const int64_t row = page * problem_.page + j % problem_.page;
    float* to = page_sums_.at((row * problem_.hk + head.head) * width_);
    add(to, sums + j * work_.k_stride(), work_.k_stride());
    add(to + work_.k_stride(), sums + dv_begin(head) + j * work_.v_stride(), work_.v_stride());
  }
}

void Backward::put_pages() const {
  const int64_t rows = problem_[Role::kDk].shape[0] * problem_.page;
  parallel_for(rows * problem_.hk, threads_, [&](int64_t at, int) {
    const float* sums = page_sums_.at(at * width_);
    const int64_t row = at / problem_.hk;
    const auto put = [&](Role role, const float* values) {
      put_row(work_.view(role), problem_.accumulate_grads, values, row / problem_.page,
              row % problem_.page, at % problem_.hk);
    };
    put(Role::kDk, sums);
    put(Role::kDv, sums + work_.k_stride());
  });
}

// dsink_h = sum_i exp(sink - lse_i) (dlse_i - delta_i), over all rows of all sequences.
void Backward::sink_gradient() const {
  const View sink = work_.view(Role::kSink);
  const View dsink = work_.view(Role::kDsink);
  parallel_for(problem_.hq, threads_, [&](int64_t h, int) {
    double sum = 0;
    const double logit = sink.at(h);
    for (int64_t n = 0; n < problem_.b && logit != -HUGE_VAL; ++n) {
      const Sequence s = work_.sequence(n);
      for (int64_t i = 0; i < s.sq; ++i) {
        sum += std::exp(logit - work_.lse(s, h, i)) * work_.shift(s, h, i);
      }
    }
    put_element(dsink, problem_.accumulate_grads, sum, dsink.offset(h));
  });
}

}  // namespace

Status cpu_backward(const Plan& plan, const Buffers& buffers) {
  return Backward(plan, buffers, *kernels()[static_cast<size_t>(plan.config.row)]).run();
}

}  // namespace volley::core
