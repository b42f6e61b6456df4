// SPDX-License-Identifier: BSD-3-Clause
#include "cpu/contents.h"

#include <cmath>

#include "cpu/view.h"

namespace volley::core {
namespace {

template <class... Args>
Status bad(fmt::format_string<Args...> format, Args&&... args) {
  return invalid(VOLLEY_REASON_CONTENTS, format, std::forward<Args>(args)...);
}

int64_t blocks_of(int64_t rows, int64_t block) { return (rows + block - 1) / block; }

template <class... Index>
int64_t integer(const View& view, Index... index) {
  return static_cast<int64_t>(view.at(index...));
}

// The length arrays of the queries, or of the keys, and what they must fit.
struct Side {
  Role cu;
  Role used;
  Role operand;
  const char* max_name;
  int64_t max_length;  // also the rows that a sequence owns when the operand is not packed
  int64_t rows;        // of the packed operand
};

Status check_cumulative(const Problem& problem, const Buffers& buffers, const Side& side) {
  const View cu = view_of(problem, buffers, side.cu);
  if (!cu.present()) return {};
  const char* name = info(side.cu).name;
  if (integer(cu, 0) != 0) return bad("{}[0] is {}; it must be 0", name, integer(cu, 0));
  for (int64_t n = 0; n < problem.b; ++n) {
    const int64_t begin = integer(cu, n);
    const int64_t end = integer(cu, n + 1);
    if (end < begin) {
      return bad("{}[{}] is {}, below {}[{}] = {}; cumulative lengths must not decrease", name,
                 n + 1, end, name, n, begin);
    }
    if (end > side.rows) {
      return bad("{}[{}] is {}, past the end of {}, which has {} rows", name, n + 1, end,
                 info(side.operand).name, side.rows);
    }
    if (end - begin > side.max_length) {
      return bad("{} gives sequence {} a length of {}; {} is {}", name, n, end - begin,
                 side.max_name, side.max_length);
    }
  }
  return {};
}

// check_cumulative has passed.
Status check_used(const Problem& problem, const Buffers& buffers, const Side& side) {
  const View used = view_of(problem, buffers, side.used);
  if (!used.present()) return {};
  const View cu = view_of(problem, buffers, side.cu);
  for (int64_t n = 0; n < problem.b; ++n) {
    const int64_t rows = cu.present() ? integer(cu, n + 1) - integer(cu, n) : side.max_length;
    if (integer(used, n) < 0 || integer(used, n) > rows) {
      return bad("{}[{}] is {}; wanted 0 to {}, the rows that sequence {} has",
                 info(side.used).name, n, integer(used, n), rows, n);
    }
  }
  return {};
}

// The lengths have passed.
Status check_page_table(const Problem& problem, const Buffers& buffers) {
  const View table = view_of(problem, buffers, Role::kPageTable);
  if (!table.present()) return {};
  const int64_t pages = problem[Role::kK].shape[0];
  for (int64_t n = 0; n < problem.b; ++n) {
    const int64_t sk = sequence_at(problem, lengths_of(buffers), n).sk;
    for (int64_t slot = 0; slot < blocks_of(sk, problem.page); ++slot) {
      const int64_t page = integer(table, n, slot);
      if (page < 0 || page >= pages) {
        return bad("page_table[{}][{}] is {}; wanted 0 to {}, since k has {} pages", n, slot, page,
                   pages - 1, pages);
      }
    }
  }
  return {};
}

// The scales of `rows` rows that start at the first block of scales[n].
Status check_scale_rows(const View& scales, Role role, int64_t block, int64_t n, int64_t rows) {
  for (int64_t head = 0; head < scales.tensor->shape[1]; ++head) {
    for (int64_t i = 0; i < blocks_of(rows, block); ++i) {
      const double scale = scales.at(n, head, i);
      if (!std::isfinite(scale) || scale <= 0) {
        const auto& stride = scales.tensor->stride;  // 0: broadcast, the caller has index 0 only
        return bad("{}[{}][{}][{}] is {}; wanted a finite value above 0", info(role).name,
                   stride[0] ? n : 0, stride[1] ? head : 0, stride[2] ? i : 0, scale);
      }
    }
  }
  return {};
}

// Lengths and page table have passed.
Status check_scales(const Problem& problem, const Buffers& buffers, Role role, int64_t block) {
  const View scales = view_of(problem, buffers, role);
  if (!scales.present()) return {};
  const View table = view_of(problem, buffers, Role::kPageTable);
  for (int64_t n = 0; n < problem.b; ++n) {
    const Sequence sequence = sequence_at(problem, lengths_of(buffers), n);
    if (role == Role::kQDescale || !table.present()) {
      const int64_t rows = role == Role::kQDescale ? sequence.sq : sequence.sk;
      VOLLEY_TRY(check_scale_rows(scales, role, block, n, rows));
      continue;
    }
    for (int64_t slot = 0; slot < blocks_of(sequence.sk, problem.page); ++slot) {
      const int64_t rows = std::min(problem.page, sequence.sk - slot * problem.page);
      const int64_t page = integer(table, n, slot);
      VOLLEY_TRY(check_scale_rows(scales, role, block, page, rows));
    }
  }
  return {};
}

}  // namespace

Lengths lengths_of(const Buffers& buffers) {
  return {buffers.as<const int32_t>(Role::kCuSeqlensQ),
          buffers.as<const int32_t>(Role::kCuSeqlensK), buffers.as<const int32_t>(Role::kSequsedQ),
          buffers.as<const int32_t>(Role::kSequsedK)};
}

Status check_contents(const Problem& problem, const Buffers& buffers) {
  const Side sides[] = {{Role::kCuSeqlensQ, Role::kSequsedQ, Role::kQ, "max_seqlen_q",
                         problem.max_sq, problem[Role::kQ].shape[1]},
                        {Role::kCuSeqlensK, Role::kSequsedK, Role::kK, "max_seqlen_k",
                         problem.max_sk, problem[Role::kK].shape[1]}};
  for (const Side& side : sides) {
    VOLLEY_TRY(check_cumulative(problem, buffers, side));
    VOLLEY_TRY(check_used(problem, buffers, side));
  }
  if (problem.writes_nothing()) return {};  // so no page and no scale is used
  VOLLEY_TRY(check_page_table(problem, buffers));
  const Role descales[] = {Role::kQDescale, Role::kKDescale, Role::kVDescale};
  for (size_t i = 0; i < 3; ++i) {
    const int64_t block = problem.scale_block[i];
    VOLLEY_TRY(check_scales(problem, buffers, descales[i], block));
  }
  return {};
}

}  // namespace volley::core
