// SPDX-License-Identifier: BSD-3-Clause
//
// Tensor maps: what TMA must know of a tensor in global memory. A (b, s, h, d) tensor of 16-bit
// elements becomes a rank-4 map (b, h, s, d) whose box is some rows of 64 columns, in the swizzled
// layout of common/layout.cuh. Rows and columns past the tensor's are loaded as zeros, so a head
// dimension that no kernel has runs in the next.
#pragma once

#include "cuda/config.h"
#include "cuda/params.h"
#include "status.h"

namespace volley::cuda {

struct TensorGeometry {
  const char* name;  // for messages: "q"
  const void* data;  // 16-byte aligned
  Element element;
  i64 batch;  // extents, each at least 1
  i64 rows;
  i64 heads;
  i64 d;           // a multiple of 8
  Strides stride;  // elements, each a multiple of 8; 0 broadcasts
  int box_rows;    // rows of a tile
};

// Encodes the map with the driver's cuTensorMapEncodeTiled, looked up at run time.
core::Status encode_tensor_map(const TensorGeometry& tensor, TensorMap* out);

// The map of a tensor whose address is not known yet: encoded once, moved in each call.
struct OperandMap {
  TensorGeometry tensor;  // its data does not matter
  TensorMap map;
  bool movable;  // the first word is the address, and nothing else depends on it
};

OperandMap make_operand_map(const TensorGeometry& tensor);

// The map for `data`. Writes one word where that is known to be right, else encodes.
core::Status map_at(const OperandMap& operand, const void* data, TensorMap* out);

}  // namespace volley::cuda
