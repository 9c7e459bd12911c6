// The directory of a container: what may be in it before we write, the small files, the index.
#pragma once

#include <filesystem>

#include "model/checkpoint/container_plan.hpp"

namespace k3::checkpoint {

// Neither the source itself nor inside it.
Result<void> check_destination(const std::filesystem::path& source, const std::filesystem::path& destination);
// Makes the directory if need be. It must be empty, or hold a container begun earlier in the same bits; k3_container.json, which is
// written first of all, tells that.
Result<void> claim_directory(const std::filesystem::path& destination, const ContainerPlan& plan);
// config.json, the vocabulary, and of the other small files those that the source has.
Result<void> copy_small_files(const std::filesystem::path& source, const std::filesystem::path& destination);
// Of all shards, which must be there: the index appears in one step, and last.
Result<void> write_index(const std::filesystem::path& destination, const ContainerPlan& plan);

}  // namespace k3::checkpoint
