// SPDX-License-Identifier: BSD-3-Clause
#include "builder.h"

#include <cstring>

#include "dtype.h"

namespace volley::cli::test {
namespace {

void store(int32_t dtype, std::byte* data, int64_t index, double value) {
  const auto integer = static_cast<int32_t>(value);
  if (dtype == VOLLEY_I32) {
    std::memcpy(data + index * 4, &integer, 4);
  } else if (dtype == VOLLEY_BOOL || dtype == VOLLEY_E8M0) {
    data[index] = static_cast<std::byte>(integer);
  } else {
    core::store_element(dtype, data, index, value);
  }
}

}  // namespace

FileBuilder::FileBuilder(const std::string& path) {
  const SafetensorsFile file(path);
  metadata_ = file.metadata();
  for (const StoredTensor& stored : file.tensors()) {
    Tensor& tensor = tensors_[stored.name];
    tensor = {stored.dtype, stored.shape, std::vector<std::byte>(stored.bytes)};
    file.read(stored, tensor.data);
  }
}

FileBuilder& FileBuilder::add(const std::string& name, int32_t dtype, std::vector<int64_t> shape,
                              const std::vector<double>& values) {
  std::vector<std::byte> data(values.size() * static_cast<size_t>(core::dtype_size(dtype)));
  for (size_t i = 0; i < values.size(); ++i) {
    store(dtype, data.data(), static_cast<int64_t>(i), values[i]);
  }
  tensors_[name] = {dtype, std::move(shape), std::move(data)};
  return *this;
}

FileBuilder& FileBuilder::fill(const std::string& name, int32_t dtype, std::vector<int64_t> shape,
                               double value) {
  size_t elements = 1;
  for (const int64_t size : shape) elements *= static_cast<size_t>(size);
  return add(name, dtype, std::move(shape), std::vector<double>(elements, value));
}

FileBuilder& FileBuilder::copy(const std::string& name, const FileBuilder& from,
                               const std::string& as) {
  tensors_[as] = from.tensors_.at(name);
  return *this;
}

FileBuilder& FileBuilder::remove(const std::string& name) {
  tensors_.erase(name);
  return *this;
}

FileBuilder& FileBuilder::set(const std::string& name, int64_t index, double value) {
  Tensor& tensor = tensors_.at(name);
  store(tensor.dtype, tensor.data.data(), index, value);
  return *this;
}

FileBuilder& FileBuilder::metadata(const std::string& key, const std::string& value) {
  metadata_[key] = value;
  return *this;
}

double FileBuilder::at(const std::string& name, int64_t index) const {
  const Tensor& tensor = tensors_.at(name);
  return core::load_element(tensor.dtype, tensor.data.data(), index);
}

const std::vector<int64_t>& FileBuilder::shape(const std::string& name) const {
  return tensors_.at(name).shape;
}

int32_t FileBuilder::dtype(const std::string& name) const { return tensors_.at(name).dtype; }

std::string FileBuilder::write(const std::string& path) const {
  std::vector<TensorToWrite> tensors;
  for (const auto& [name, tensor] : tensors_) {
    tensors.push_back({name, tensor.dtype, tensor.shape, tensor.data});
  }
  write_safetensors(path, std::move(tensors), metadata_);
  return path;
}

}  // namespace volley::cli::test
