// model.safetensors.index.json: which shard holds which tensor. The released one has 497,220 entries in 60 MB, nearly all of them
// parts of experts; those become 16 bytes each instead of a string.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/error.hpp"

namespace k3::checkpoint {

// "model.layers.{layer}.block_sparse_moe.experts.{expert}.{w1|w2|w3}.{weight_packed|weight_scale}"
struct ExpertPart {
  std::uint32_t layer = 0, expert = 0;
  std::uint32_t part = 0;  // 0..5 in the order of ExpertLocation
  friend auto operator<=>(const ExpertPart&, const ExpertPart&) = default;
};
std::optional<ExpertPart> parse_expert_name(std::string_view name);

// Cuts the prefix `language_model.`, which derived checkpoints drop.
std::string_view without_prefix(std::string_view name);
// mm_projector.* and vision_tower.*: never needed for text.
bool is_vision(std::string_view name);

struct Index {
  struct Expert {
    ExpertPart part;
    std::uint32_t shard = 0;
  };
  struct Other {
    std::string name;  // without prefix
    std::uint32_t shard = 0;
  };
  std::vector<std::string> shards;  // only those that hold text tensors; sorted
  std::vector<Expert> experts;
  std::vector<Other> others;
};

// `file` is for messages. The text is copied where the parser needs it; pure, so that it can be fuzzed.
Result<Index> parse_index(std::string_view json, const std::string& file);
// Of DIRECTORY's index file; without one, a lone model.safetensors is an index of its own header's tensors.
Result<Index> load_index(const std::filesystem::path& directory);

}  // namespace k3::checkpoint
