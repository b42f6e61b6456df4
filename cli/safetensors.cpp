// SPDX-License-Identifier: BSD-3-Clause
//
// See safetensors.h. Data are read with pread on demand, not mapped: a file that shrinks meanwhile
// is then an error sentence and not a signal, and every tensor lands in aligned memory.
#include "safetensors.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>

#include "error.h"
#include "output_file.h"

namespace volley::cli {
namespace {

static_assert(std::endian::native == std::endian::little, "safetensors data are little-endian");

constexpr uint64_t kLengthBytes = 8;
constexpr uint64_t kLongestHeader = 100'000'000;  // the limit of the format's own library

}  // namespace

Descriptor::~Descriptor() {
  if (value >= 0) close(value);
}

// O_NONBLOCK: opening a pipe without a writer must not wait; it is refused below.
SafetensorsFile::SafetensorsFile(const std::string& path)
    : path_(path), descriptor_{open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)} {
  const std::string name = printable(path);
  struct stat found {};
  if (descriptor_.value < 0 || fstat(descriptor_.value, &found) != 0) {
    bad_input("cannot open '{}': {}", name, std::strerror(errno));
  }
  if (!S_ISREG(found.st_mode)) bad_input("'{}' is not a regular file", name);
  const auto file_bytes = static_cast<uint64_t>(found.st_size);
  if (file_bytes < kLengthBytes) {
    bad_input("'{}' is no safetensors file: it has only {} bytes", name, file_bytes);
  }
  uint64_t header_bytes = 0;
  read_at(0, std::as_writable_bytes(std::span(&header_bytes, 1)));
  if (header_bytes > file_bytes - kLengthBytes) {
    bad_input("'{}' is no safetensors file: its header length is {}, its size {} bytes", name,
              header_bytes, file_bytes);
  }
  if (header_bytes > kLongestHeader) {
    bad_input("the header of '{}' has {} bytes; the format allows {}", name, header_bytes,
              kLongestHeader);
  }
  std::string text(header_bytes, '\0');
  read_at(kLengthBytes, std::as_writable_bytes(std::span(text.data(), text.size())));
  data_begin_ = kLengthBytes + header_bytes;
  try {
    header_ = parse_safetensors_header(text, file_bytes - data_begin_);
  } catch (const Error& error) {
    bad_input("'{}': {}", name, error.what());
  }
}

const StoredTensor* SafetensorsFile::find(std::string_view name) const {
  const auto found =
      std::find_if(tensors().begin(), tensors().end(),
                   [&](const StoredTensor& candidate) { return candidate.name == name; });
  return found == tensors().end() ? nullptr : &*found;
}

void SafetensorsFile::read(const StoredTensor& tensor, std::span<std::byte> out) const {
  read_at(data_begin_ + tensor.begin, out.first(tensor.bytes));
}

void SafetensorsFile::read_at(uint64_t offset, std::span<std::byte> out) const {
  while (!out.empty()) {
    const ssize_t got =
        pread(descriptor_.value, out.data(), out.size(), static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) failure("cannot read '{}': {}", printable(path_), std::strerror(errno));
    if (got == 0) failure("'{}' became shorter while it was read", printable(path_));
    out = out.subspan(static_cast<size_t>(got));
    offset += static_cast<uint64_t>(got);
  }
}

void write_safetensors(const std::string& path, std::vector<TensorToWrite> tensors,
                       const Metadata& metadata) {
  // Widest type first: each tensor then begins at a multiple of its element size.
  const auto element_bytes = [](const TensorToWrite& tensor) {
    size_t elements = 1;
    for (const int64_t size : tensor.shape) elements *= static_cast<size_t>(size);
    return elements == 0 ? 0 : tensor.data.size() / elements;
  };
  std::stable_sort(tensors.begin(), tensors.end(),
                   [&](const TensorToWrite& a, const TensorToWrite& b) {
                     return element_bytes(a) > element_bytes(b);
                   });

  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  if (!metadata.empty()) header["__metadata__"] = metadata;
  uint64_t end = 0;
  for (const TensorToWrite& tensor : tensors) {
    header[tensor.name] = {{"dtype", safetensors_dtype_name(tensor.dtype)},
                           {"shape", tensor.shape},
                           {"data_offsets", {end, end + tensor.data.size()}}};
    end += tensor.data.size();
  }
  std::string text = header.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
  text.resize((text.size() + 7) / 8 * 8, ' ');  // spaces up to aligned data, as the format allows

  OutputFile file(path);
  const uint64_t length = text.size();
  file.write(std::as_bytes(std::span(&length, 1)));
  file.write(std::as_bytes(std::span(text.data(), text.size())));
  for (const TensorToWrite& tensor : tensors) file.write(tensor.data);
  file.finish();
}

}  // namespace volley::cli
