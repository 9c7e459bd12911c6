// The trunk of a checkpoint rounded once and kept: a container without experts, for whoever has no room for a second copy of those.
#pragma once

#include <filesystem>
#include <functional>
#include <span>

#include "model/checkpoint/checkpoint.hpp"
#include "model/checkpoint/precision.hpp"

namespace k3::checkpoint {

// A folder of its own within `root` for each model and each choice of bits: "kimi-k3-8-8-8-0123456789abcdef". The digits are of the
// model's path, so that two of one name do not meet.
std::filesystem::path trunk_cache_path(const std::filesystem::path& root, const std::filesystem::path& model,
                                       const TrunkPrecision& precision);

// The same model with its trunk read from `cache`, which is made if it is not there, finished if it was begun, and refused if it
// was made of other files. `others`: where shards of the model lie too. `progress` as repack()'s.
Result<Checkpoint> open_with_cached_trunk(const Checkpoint& model, std::span<const std::filesystem::path> others,
                                          const TrunkPrecision& precision, const std::filesystem::path& cache,
                                          const std::function<void(std::uint64_t done, std::uint64_t total)>& progress);

}  // namespace k3::checkpoint
