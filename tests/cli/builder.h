// SPDX-License-Identifier: BSD-3-Clause
//
// Makes safetensors files for the command: from numbers, or from another file with changes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "safetensors.h"

namespace volley::cli::test {

class FileBuilder {
 public:
  FileBuilder() = default;
  explicit FileBuilder(const std::string& path);  // everything that a file holds

  // Adds or replaces a tensor; values in row-major order, rounded to dtype.
  FileBuilder& add(const std::string& name, int32_t dtype, std::vector<int64_t> shape,
                   const std::vector<double>& values);
  FileBuilder& fill(const std::string& name, int32_t dtype, std::vector<int64_t> shape,
                    double value);
  FileBuilder& copy(const std::string& name, const FileBuilder& from, const std::string& as);
  FileBuilder& remove(const std::string& name);
  FileBuilder& set(const std::string& name, int64_t index, double value);
  FileBuilder& metadata(const std::string& key, const std::string& value);

  double at(const std::string& name, int64_t index) const;
  const std::vector<int64_t>& shape(const std::string& name) const;
  int32_t dtype(const std::string& name) const;
  const Metadata& metadata() const { return metadata_; }

  std::string write(const std::string& path) const;  // returns path

 private:
  struct Tensor {
    int32_t dtype = 0;
    std::vector<int64_t> shape;
    std::vector<std::byte> data;
  };
  std::map<std::string, Tensor> tensors_;
  Metadata metadata_;
};

}  // namespace volley::cli::test
