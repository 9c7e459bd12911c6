// Safetensors headers and the index: whatever the bytes, an answer; and an accepted header keeps its promises.
#include "model/checkpoint/safetensors.hpp"

#include <cstdlib>
#include <string_view>

#include "model/checkpoint/index.hpp"

// The first two bytes say how much data follows the header in the pretended file.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 2) return 0;
  const std::uint64_t data_bytes = data[0] | static_cast<std::uint64_t>(data[1]) << 8;
  const std::string_view text(reinterpret_cast<const char*>(data + 2), size - 2);
  const std::uint64_t file_bytes = 8 + text.size() + data_bytes;
  const auto header = k3::checkpoint::parse_header(text, file_bytes, "fuzz");
  if (header) {
    std::uint64_t end = 8 + text.size();
    for (const auto& [name, tensor] : header->tensors) {
      if (tensor.offset != end) std::abort();
      end += tensor.bytes;
    }
    if (end != file_bytes) std::abort();
  }
  const auto index = k3::checkpoint::parse_index(text, "fuzz");
  if (index) {
    for (const auto& entry : index->experts) {
      if (entry.shard >= index->shards.size() || entry.part.part > 5) std::abort();
    }
    for (const auto& entry : index->others) {
      if (entry.shard >= index->shards.size()) std::abort();
    }
  }
  return 0;
}
