#include "model/checkpoint/safetensors.hpp"

#include <simdjson.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "model/checkpoint/file_io.hpp"

namespace k3::checkpoint {
namespace {

namespace od = simdjson::ondemand;
static_assert(std::endian::native == std::endian::little, "safetensors data is little-endian and is used as stored");

struct KnownType {
  std::string_view name;
  DType dtype;
  std::uint64_t bytes;
};
constexpr KnownType known_types[] = {
    {"BF16", DType::bf16, 2}, {"F32", DType::f32, 4},       {"U8", DType::u8, 1},         {"BOOL", DType::other, 1},
    {"I8", DType::other, 1},  {"I16", DType::other, 2},     {"U16", DType::other, 2},     {"F16", DType::other, 2},
    {"I32", DType::other, 4}, {"U32", DType::other, 4},     {"I64", DType::other, 8},     {"U64", DType::other, 8},
    {"F64", DType::other, 8}, {"F8_E4M3", DType::other, 1}, {"F8_E5M2", DType::other, 1}, {"F8_E8M0", DType::other, 1}};

class HeaderParser {
 public:
  HeaderParser(std::string_view text, std::uint64_t file_bytes, const std::string& name)
      : padded_(text), data_begin_(8 + text.size()), file_bytes_(file_bytes), file_(name) {}

  Result<Header> run() {
    od::document document;
    od::object root;
    if (parser_.iterate(padded_).get(document) || document.get_object().get(root))
      return corrupt("the header is not a JSON object");
    for (auto field : root) {
      std::string_view key;
      od::object value;
      if (field.unescaped_key().get(key) || field.value().get_object().get(value)) return corrupt("the header is not valid JSON");
      auto done = key == "__metadata__" ? metadata(value) : tensor(std::string(key), value);
      if (!done) return done.error();
    }
    // On-Demand stops at the closing brace; what follows may only be the spaces that pad the header.
    const char* rest = nullptr;
    if (const auto error = document.current_location().get(rest); error != simdjson::OUT_OF_BOUNDS) {
      if (error != simdjson::SUCCESS || std::string_view(rest).find_first_not_of(" \n\r\t") != std::string_view::npos) {
        return corrupt("something follows the header's closing brace");
      }
    }
    auto covered = check_coverage();
    if (!covered) return covered.error();
    return Header{std::move(tensors_), std::move(metadata_), file_bytes_};
  }

 private:
  Error corrupt(std::string message, std::string expected = {}, std::string got = {}) const {
    return Error{.code = ErrorCode::corrupt,
                 .message = std::move(message),
                 .file = file_,
                 .expected = std::move(expected),
                 .got = std::move(got)};
  }

  Result<void> metadata(od::object value) {
    for (auto field : value) {
      std::string_view key, text;
      if (field.unescaped_key().get(key) || field.value().get_string().get(text))
        return corrupt("__metadata__ is not a map of strings");
      metadata_.emplace_back(key, text);
    }
    return {};
  }

  Result<void> tensor(std::string name, od::object value) {
    Tensor tensor;
    std::uint64_t element = 0, offsets[2] = {0, 0};
    bool has_type = false, has_shape = false, has_offsets = false;
    for (auto field : value) {
      std::string_view key;
      if (field.unescaped_key().get(key)) return corrupt("the header is not valid JSON in tensor " + name);
      Result<void> done;
      if (key == "dtype" && !has_type) {
        has_type = true;
        done = read_type(field.value(), name, tensor, element);
      } else if (key == "shape" && !has_shape) {
        has_shape = true;
        done = read_shape(field.value(), name, tensor);
      } else if (key == "data_offsets" && !has_offsets) {
        has_offsets = true;
        done = read_offsets(field.value(), name, offsets);
      } else {
        return corrupt("unknown or repeated key \"" + std::string(key) + "\" in tensor " + name);
      }
      if (!done) return done;
    }
    if (!has_type || !has_shape || !has_offsets) return corrupt("tensor " + name + " lacks dtype, shape or data_offsets");
    auto placed = place(name, element, offsets, tensor);
    if (!placed) return placed;
    tensors_.push_back({std::move(name), tensor});
    return {};
  }

  Result<void> read_type(simdjson::simdjson_result<od::value> value, const std::string& name, Tensor& tensor,
                         std::uint64_t& element) {
    std::string_view text;
    if (value.get_string().get(text)) return corrupt("dtype of tensor " + name + " is not a string");
    for (const auto& known : known_types) {
      if (known.name != text) continue;
      tensor.dtype = known.dtype;
      element = known.bytes;
      return {};
    }
    return corrupt("unknown dtype of tensor " + name, {}, std::string(text));
  }

  Result<void> read_shape(simdjson::simdjson_result<od::value> value, const std::string& name, Tensor& tensor) {
    od::array dimensions;
    if (value.get_array().get(dimensions)) return corrupt("shape of tensor " + name + " is not a list");
    for (auto item : dimensions) {
      if (tensor.rank == tensor.shape.size())
        return corrupt("tensor " + name + " has more dimensions than any K3 tensor", "at most 4");
      if (item.get_uint64().get(tensor.shape[tensor.rank++]))
        return corrupt("shape of tensor " + name + " is not a list of whole numbers");
    }
    return {};
  }

  Result<void> read_offsets(simdjson::simdjson_result<od::value> value, const std::string& name, std::uint64_t (&offsets)[2]) {
    od::array pair;
    std::size_t count = 0;
    if (value.get_array().get(pair)) return corrupt("data_offsets of tensor " + name + " is not a list");
    for (auto item : pair) {
      if (count == 2 || item.get_uint64().get(offsets[count]))
        return corrupt("data_offsets of tensor " + name + " is not a pair of whole numbers");
      ++count;
    }
    return count == 2 ? Result<void>{} : corrupt("data_offsets of tensor " + name + " is not a pair of whole numbers");
  }

  // Turns header-relative offsets into a place in the file. Numbers come from the file: every sum and product is checked.
  Result<void> place(const std::string& name, std::uint64_t element, const std::uint64_t (&offsets)[2], Tensor& tensor) const {
    std::uint64_t bytes = element;
    for (std::size_t i = 0; i < tensor.rank; ++i) {
      if (__builtin_mul_overflow(bytes, tensor.shape[i], &bytes))
        return corrupt("the size of tensor " + name + " overflows 64 bits");
    }
    const std::string range = "[" + std::to_string(offsets[0]) + ", " + std::to_string(offsets[1]) + ")";
    if (offsets[0] > offsets[1]) return corrupt("data_offsets of tensor " + name + " run backwards", {}, range);
    if (offsets[1] - offsets[0] != bytes) {
      return corrupt("data_offsets of tensor " + name + " do not hold its shape", std::to_string(bytes) + " bytes", range);
    }
    if (__builtin_add_overflow(data_begin_, offsets[0], &tensor.offset) || data_begin_ > UINT64_MAX - offsets[1]) {
      return corrupt("data_offsets of tensor " + name + " overflow 64 bits", {}, range);
    }
    tensor.bytes = bytes;
    return {};
  }

  // Sorted by place, each tensor must begin where the one before ended, and the last must end the file.
  Result<void> check_coverage() {
    std::sort(tensors_.begin(), tensors_.end(), [](const NamedTensor& a, const NamedTensor& b) {
      return a.tensor.offset != b.tensor.offset ? a.tensor.offset < b.tensor.offset : a.tensor.bytes < b.tensor.bytes;
    });
    std::uint64_t end = data_begin_;
    for (const auto& [name, tensor] : tensors_) {
      if (tensor.offset != end) {
        Error error = corrupt(tensor.offset < end ? "tensor " + name + " overlaps another" : "a gap lies before tensor " + name,
                              "a start at byte " + std::to_string(end), std::to_string(tensor.offset));
        error.offset = static_cast<std::int64_t>(std::min(tensor.offset, std::uint64_t{INT64_MAX}));
        return error;
      }
      end += tensor.bytes;
    }
    if (end != file_bytes_) {
      return corrupt(file_bytes_ < end ? "the file is truncated" : "bytes follow the last tensor", std::to_string(end) + " bytes",
                     std::to_string(file_bytes_));
    }
    return check_names();
  }

  Result<void> check_names() const {
    std::vector<std::string_view> names;
    names.reserve(tensors_.size());
    for (const auto& entry : tensors_) names.push_back(entry.name);
    std::sort(names.begin(), names.end());
    const auto twice = std::adjacent_find(names.begin(), names.end());
    return twice == names.end() ? Result<void>{} : corrupt("tensor " + std::string(*twice) + " occurs twice in the header");
  }

  simdjson::padded_string padded_;
  od::parser parser_;
  std::uint64_t data_begin_, file_bytes_;
  const std::string& file_;
  std::vector<NamedTensor> tensors_;
  std::vector<std::pair<std::string, std::string>> metadata_;
};

}  // namespace

Result<Header> parse_header(std::string_view json, std::uint64_t file_bytes, const std::string& name) {
  if (json.size() > max_header_bytes || file_bytes < 8 || json.size() > file_bytes - 8) {
    return Error{.code = ErrorCode::corrupt, .message = "the header does not fit the file", .file = name};
  }
  return HeaderParser(json, file_bytes, name).run();
}

Result<HeaderText> read_header_text(const std::filesystem::path& path) {
  const std::string name = path.string();
  auto handle = FileHandle::open(path);
  if (!handle) return handle.error();
  const auto size = handle->size(name);
  if (!size) return size.error();
  const std::uint64_t file_bytes = *size;
  std::uint64_t length = 0;
  auto done = handle->read(&length, sizeof length, 0, name);
  if (!done) return done.error();
  if (length > max_header_bytes || length > file_bytes - 8) {
    return Error{
        .code = ErrorCode::corrupt,
        .message = length > max_header_bytes ? "not a safetensors file: its header length is impossible" : "the file is truncated",
        .file = name,
        .offset = 0,
        .expected = "a header of at most " + std::to_string(std::min(max_header_bytes, file_bytes - 8)) + " bytes",
        .got = std::to_string(length)};
  }
  std::string json(length, '\0');
  done = handle->read(json.data(), length, 8, name);
  if (!done) return done.error();
  return HeaderText{std::move(json), file_bytes};
}

Result<Header> read_header(const std::filesystem::path& path) {
  const auto text = read_header_text(path);
  if (!text) return text.error();
  return parse_header(text->json, text->file_bytes, path.string());
}

const std::string* Header::find_metadata(std::string_view key) const {
  const auto found = std::find_if(metadata.begin(), metadata.end(), [&](const auto& entry) { return entry.first == key; });
  return found == metadata.end() ? nullptr : &found->second;
}

std::string_view dtype_name(DType dtype) {
  switch (dtype) {
    case DType::bf16:
      return "BF16";
    case DType::f32:
      return "F32";
    case DType::u8:
      return "U8";
    case DType::other:
      break;
  }
  return "another type";
}

std::uint64_t dtype_bytes(DType dtype) { return dtype == DType::bf16 ? 2 : dtype == DType::f32 ? 4 : dtype == DType::u8 ? 1 : 0; }

std::string describe_type(DType dtype, const std::array<std::uint64_t, 4>& shape, std::size_t rank) {
  std::string text = std::string(dtype_name(dtype)) + " [";
  for (std::size_t i = 0; i < rank; ++i) text += (i ? ", " : "") + std::to_string(shape[i]);
  return text + "]";
}

}  // namespace k3::checkpoint
