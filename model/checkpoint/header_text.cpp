#include "model/checkpoint/header_text.hpp"

#include <cstring>

#include "model/checkpoint/safetensors.hpp"
#include "model/text/json.hpp"

namespace k3::checkpoint {

std::string header_text(std::span<const ExpectedTensor> tensors, const Metadata& metadata, std::size_t alignment) {
  constexpr std::size_t length_bytes = 8;
  std::string text(length_bytes, '\0');
  json::Writer out(text);
  out.begin_object();
  if (!metadata.empty()) {
    out.key("__metadata__").begin_object();
    for (const auto& [key, value] : metadata) out.key(key).string(value);
    out.end_object();
  }
  std::uint64_t offset = 0;
  for (const auto& tensor : tensors) {
    out.key(tensor.name).begin_object().key("dtype").string(dtype_name(tensor.dtype)).key("shape").begin_array();
    for (std::size_t i = 0; i < tensor.rank; ++i) out.integer(static_cast<std::int64_t>(tensor.shape[i]));
    out.end_array().key("data_offsets").begin_array().integer(static_cast<std::int64_t>(offset));
    offset += tensor.bytes();
    out.integer(static_cast<std::int64_t>(offset)).end_array().end_object();
  }
  out.end_object();
  text.resize((text.size() + alignment - 1) / alignment * alignment, ' ');
  const std::uint64_t length = text.size() - length_bytes;
  std::memcpy(text.data(), &length, length_bytes);
  return text;
}

}  // namespace k3::checkpoint
