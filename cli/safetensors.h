// SPDX-License-Identifier: BSD-3-Clause
//
// Reader and writer of the safetensors format: 8 bytes of little-endian header length, a JSON
// header, then the data. Files come from anywhere, so the reader trusts nothing: whatever is wrong
// becomes one Error with one sentence. Tensor data may lie unaligned in the file; it is copied out.
// The header's grammar is in safetensors_header.cpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace volley::cli {

// An entry of the header.
struct StoredTensor {
  std::string name;
  std::string dtype_name;  // as the file spells it: "BF16"
  int32_t dtype = 0;       // VOLLEY_*; 0: a type of the format that Volley has no use for
  std::vector<int64_t> shape;
  uint64_t begin = 0;  // of its bytes, from the start of the data
  uint64_t bytes = 0;
};

using Metadata = std::map<std::string, std::string>;

struct SafetensorsHeader {
  std::vector<StoredTensor> tensors;  // in the order of their data
  Metadata metadata;
};

// Reads the JSON text. On return every tensor's bytes match its shape and dtype, and together they
// cover [0, data_bytes) without overlap or gap, as the format demands.
SafetensorsHeader parse_safetensors_header(std::string_view json, uint64_t data_bytes);

// "BF16" and so on; "" for a dtype that the format lacks.
std::string_view safetensors_dtype_name(int32_t dtype);

struct Descriptor {  // of an open file, which it closes
  int value = -1;
  explicit Descriptor(int v) : value(v) {}
  ~Descriptor();
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
};

class SafetensorsFile {
 public:
  explicit SafetensorsFile(const std::string& path);  // reads the header only

  const std::vector<StoredTensor>& tensors() const { return header_.tensors; }
  const Metadata& metadata() const { return header_.metadata; }
  const StoredTensor* find(std::string_view name) const;  // NULL when there is none

  // Copies a tensor's data; out has tensor.bytes bytes.
  void read(const StoredTensor& tensor, std::span<std::byte> out) const;

 private:
  void read_at(uint64_t offset, std::span<std::byte> out) const;

  std::string path_;
  Descriptor descriptor_;
  uint64_t data_begin_ = 0;  // in the file
  SafetensorsHeader header_;
};

struct TensorToWrite {
  std::string name;
  int32_t dtype = 0;
  std::vector<int64_t> shape;
  std::span<const std::byte> data;  // contiguous, row-major
};

// Writes a file that any safetensors reader takes. The name appears only when the file is complete.
void write_safetensors(const std::string& path, std::vector<TensorToWrite> tensors,
                       const Metadata& metadata);

}  // namespace volley::cli
