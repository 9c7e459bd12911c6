// Random checkpoints in the released layout, for measuring and testing without 1.5 TB: the same files, names, orders and types.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>

#include "model/error.hpp"

namespace k3::checkpoint {

struct SynthOptions {
  std::filesystem::path directory;  // made if need be; must be empty
  std::size_t layers = 0;
  std::size_t experts = 0;
  bool tiny = false;           // widths of a few dozen instead of the released ones
  std::size_t vocabulary = 0;  // 0: 163,840 as released, or 512 for tiny; at least 512 (256 bytes and 256 reserved names)
  std::uint64_t seed = 1;
  std::function<void(std::uint64_t done_bytes, std::uint64_t total_bytes)> progress{};
};

// Writes one shard a layer and one for the globals, the index, config.json, tiktoken.model and tokenizer_config.json. Memory stays
// bounded (a few MB, and the index) however large a layer is. On an error, a full disk among others, what was written is removed.
Result<void> synthesize(const SynthOptions& options);

}  // namespace k3::checkpoint
