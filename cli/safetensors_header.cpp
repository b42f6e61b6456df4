// SPDX-License-Identifier: BSD-3-Clause
//
// The JSON header of a safetensors file, read event by event: no tree is built, so a hostile header
// costs no more memory than its own length, and duplicate names are seen (a tree would drop them).
//
//   {"__metadata__": {string: string ...}, name: {"dtype": ..., "shape": [...],
//    "data_offsets": [begin, end]} ...}
#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <optional>
#include <unordered_set>

#include "error.h"
#include "safetensors.h"
#include "volley/volley.h"

namespace volley::cli {
namespace {

using nlohmann::json;

struct DtypeRow {
  std::string_view name;
  int64_t bytes;
  int32_t dtype;  // 0: known, so that the file can be read, but of no use to attention
};

constexpr std::array kDtypes = std::to_array<DtypeRow>({
    {"F64", 8, VOLLEY_F64},
    {"F32", 4, VOLLEY_F32},
    {"F16", 2, VOLLEY_F16},
    {"BF16", 2, VOLLEY_BF16},
    {"F8_E4M3", 1, VOLLEY_E4M3},
    {"F8_E8M0", 1, VOLLEY_E8M0},
    {"I64", 8, VOLLEY_I64},
    {"I32", 4, VOLLEY_I32},
    {"BOOL", 1, VOLLEY_BOOL},
    {"U8", 1, 0},
    {"I8", 1, 0},
    {"F8_E5M2", 1, 0},
    {"I16", 2, 0},
    {"U16", 2, 0},
    {"U32", 4, 0},
    {"U64", 8, 0},
    {"C64", 8, 0},
});

const DtypeRow* find_dtype(std::string_view name) {
  const auto row = std::find_if(kDtypes.begin(), kDtypes.end(),
                                [&](const DtypeRow& candidate) { return candidate.name == name; });
  return row == kDtypes.end() ? nullptr : &*row;
}

// Bytes of a shape; empty when they do not fit in 63 bits. A zero does not excuse the other sizes,
// so that strides computed from a shape that passed never overflow.
std::optional<uint64_t> bytes_of(const std::vector<int64_t>& shape, int64_t element_bytes) {
  int64_t bytes = element_bytes;
  bool empty = false;
  for (const int64_t size : shape) {
    empty = empty || size == 0;
    if (__builtin_mul_overflow(bytes, std::max<int64_t>(size, 1), &bytes)) return std::nullopt;
  }
  return empty ? 0 : static_cast<uint64_t>(bytes);
}

std::string shape_text(const std::vector<int64_t>& shape) {
  constexpr size_t kLongest = 8;
  const std::span shown(shape.data(), std::min(shape.size(), kLongest));
  return fmt::format("[{}{}]", fmt::join(shown, ", "), shape.size() > kLongest ? ", ..." : "");
}

// The state is where in the grammar the next event belongs. An event that does not belong there
// records a sentence and answers false, which stops the parser.
class HeaderReader : public json::json_sax_t {
 public:
  SafetensorsHeader header;
  std::string sentence;  // what is wrong

  bool null() override { return misplaced("null"); }
  bool boolean(bool) override { return misplaced("a boolean"); }
  bool number_float(json::number_float_t, const std::string& text) override {
    return misplaced(fmt::format("the number {}", printable(text)));
  }
  bool number_integer(json::number_integer_t value) override {
    return misplaced(fmt::format("the number {}", value));
  }
  bool binary(json::binary_t&) override { return misplaced("binary data"); }

  bool number_unsigned(json::number_unsigned_t value) override {
    if (at_ != At::kShape && at_ != At::kOffsets) return misplaced(fmt::format("{}", value));
    if (value > INT64_MAX) return fail("tensor '{}' has the impossible size {}", name(), value);
    if (at_ == At::kOffsets) {
      if (offsets_.size() == 2) return fail("tensor '{}' has more than 2 data_offsets", name());
      offsets_.push_back(value);
    } else {
      tensor_.shape.push_back(static_cast<int64_t>(value));
    }
    return true;
  }

  bool string(std::string& value) override {
    if (at_ == At::kMetadata) {
      header.metadata[key_] = value;
      return true;
    }
    if (at_ != At::kEntry || key_ != "dtype") return misplaced("a string");
    tensor_.dtype_name = value;
    return true;
  }

  bool start_object(size_t) override {
    if (at_ == At::kStart) {
      at_ = At::kTop;
    } else if (at_ == At::kTop && key_ == "__metadata__") {
      at_ = At::kMetadata;
    } else if (at_ == At::kTop) {
      at_ = At::kEntry;
      tensor_ = {};
      tensor_.name = key_;
      offsets_.clear();
      fields_.clear();
    } else {
      return misplaced("an object");
    }
    return true;
  }

  bool key(std::string& value) override {
    key_ = value;
    if (at_ == At::kMetadata) {
      if (header.metadata.count(key_) == 0) return true;
      return fail("metadata has '{}' twice", printable(key_));
    }
    if (at_ == At::kEntry) {
      if (key_ != "dtype" && key_ != "shape" && key_ != "data_offsets") {
        return fail("tensor '{}' has the unknown field '{}'", name(), printable(key_));
      }
      return fields_.insert(key_).second || fail("tensor '{}' has '{}' twice", name(), key_);
    }
    return names_.insert(key_).second || fail("'{}' is there twice", printable(key_));
  }

  bool start_array(size_t) override {
    if (at_ != At::kEntry || key_ == "dtype") return misplaced("an array");
    at_ = key_ == "shape" ? At::kShape : At::kOffsets;
    return true;
  }
  bool end_array() override {
    at_ = At::kEntry;
    return true;
  }

  bool end_object() override {
    if (at_ == At::kEntry && !finish_tensor()) return false;
    at_ = At::kTop;  // after the outermost object the parser sends no more events
    return true;
  }

  bool parse_error(size_t position, const std::string&, const json::exception&) override {
    return fail("it is not valid JSON near its byte {}", position);
  }

 private:
  enum class At { kStart, kTop, kMetadata, kEntry, kShape, kOffsets };

  template <class... Args>
  bool fail(fmt::format_string<Args...> format, Args&&... args) {
    sentence = fmt::format(format, std::forward<Args>(args)...);
    return false;
  }

  std::string name() const { return printable(tensor_.name); }

  bool misplaced(std::string_view what) {
    switch (at_) {
      case At::kStart: return fail("it holds {}; wanted an object", what);
      case At::kTop: return fail("'{}' is {}; wanted an object", printable(key_), what);
      case At::kMetadata:
        return fail("metadata '{}' is {}; wanted a string", printable(key_), what);
      case At::kEntry: return fail("'{}' of tensor '{}' is {}", key_, name(), what);
      case At::kShape:
        return fail("the shape of tensor '{}' holds {}; wanted sizes >= 0", name(), what);
      case At::kOffsets: break;
    }
    return fail("the data_offsets of tensor '{}' hold {}; wanted numbers >= 0", name(), what);
  }

  bool finish_tensor() {
    for (const char* field : {"dtype", "shape", "data_offsets"}) {
      if (fields_.count(field) == 0) return fail("tensor '{}' has no '{}'", name(), field);
    }
    const DtypeRow* row = find_dtype(tensor_.dtype_name);
    if (row == nullptr) {
      return fail("tensor '{}' has the unknown dtype '{}'", name(), printable(tensor_.dtype_name));
    }
    if (offsets_.size() != 2 || offsets_[1] < offsets_[0]) {
      return fail("the data_offsets of tensor '{}' are not a begin and an end", name());
    }
    const std::optional<uint64_t> bytes = bytes_of(tensor_.shape, row->bytes);
    if (!bytes) return fail("the shape {} of tensor '{}' is too large", shape(), name());
    tensor_.dtype = row->dtype;
    tensor_.begin = offsets_[0];
    tensor_.bytes = offsets_[1] - offsets_[0];
    if (tensor_.bytes != *bytes) {
      return fail("tensor '{}' has {} bytes; its shape {} and dtype {} want {}", name(),
                  tensor_.bytes, shape(), row->name, *bytes);
    }
    header.tensors.push_back(std::move(tensor_));
    return true;
  }

  std::string shape() const { return shape_text(tensor_.shape); }

  At at_ = At::kStart;
  std::string key_;
  StoredTensor tensor_;                     // the entry being read
  std::vector<uint64_t> offsets_;           // its data_offsets
  std::unordered_set<std::string> fields_;  // its fields so far
  std::unordered_set<std::string> names_;   // the keys of the outermost object
};

// The tensors, sorted by place, must tile the data.
void check_places(const std::vector<StoredTensor>& tensors, uint64_t data_bytes) {
  uint64_t end = 0;
  for (const StoredTensor& tensor : tensors) {
    const std::string name = printable(tensor.name);
    if (tensor.begin < end) {
      bad_input("the header is wrong: the data of tensor '{}' overlap another's", name);
    }
    if (tensor.begin > end) {
      bad_input("the header is wrong: bytes {} to {} of the data belong to no tensor", end,
                tensor.begin);
    }
    end = tensor.begin + tensor.bytes;
    if (end > data_bytes) {
      bad_input("the data of tensor '{}' end at byte {}, but the file has only {} bytes of data",
                name, end, data_bytes);
    }
  }
  if (end != data_bytes) {
    bad_input("the header is wrong: bytes {} to {} of the data belong to no tensor", end,
              data_bytes);
  }
}

}  // namespace

SafetensorsHeader parse_safetensors_header(std::string_view text, uint64_t data_bytes) {
  HeaderReader reader;
  if (text.empty() || text.front() != '{') {
    reader.sentence = "it does not begin with '{'";
  } else if (text.find('\0') != text.npos) {  // where the parser would stop as if all were well
    reader.sentence = "it holds a zero byte";
  } else if (!json::sax_parse(text, &reader) && reader.sentence.empty()) {
    reader.sentence = "it is not valid JSON";
  }
  if (!reader.sentence.empty()) bad_input("the header is wrong: {}", reader.sentence);

  std::vector<StoredTensor>& tensors = reader.header.tensors;
  std::sort(tensors.begin(), tensors.end(), [](const StoredTensor& a, const StoredTensor& b) {
    return std::pair(a.begin, a.bytes) < std::pair(b.begin, b.bytes);
  });
  check_places(tensors, data_bytes);
  return std::move(reader.header);
}

std::string_view safetensors_dtype_name(int32_t dtype) {
  for (const DtypeRow& row : kDtypes) {
    if (row.dtype == dtype && dtype != 0) return row.name;
  }
  return "";
}

}  // namespace volley::cli
