// Which directories hold a shard, and whether what they hold is the same.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "model/checkpoint/checkpoint.hpp"
#include "model/checkpoint/safetensors.hpp"

namespace k3::checkpoint {

struct FoundShard {
  File file;
  Header header;
};

class ShardSearch {
 public:
  // The model's own directory comes first, and may be named again among the others. Errors: a directory that is not there, two that
  // are one, more than most_directories.
  static Result<ShardSearch> make(const std::filesystem::path& own, std::span<const std::filesystem::path> others);

  // All good copies of it. A copy that is damaged is left out where a good one is found. Errors: not_found, where no directory has
  // it; what is wrong with the first, where none is good; corrupt, where two are good and differ in size or header.
  Result<FoundShard> find(const std::string& shard);

  // Copies that were left out, and directories that had nothing of this model: worth a word, and no obstacle.
  std::vector<Error> left_out() const;

 private:
  ShardSearch() = default;
  void add_copy(File& file, const std::filesystem::path& path);
  std::uint32_t drive_of(const std::filesystem::path& file);

  std::vector<std::filesystem::path> directories_;
  std::vector<bool> useful_;                   // [directories]
  std::vector<std::filesystem::path> drives_;  // directories that files really lie in, links followed
  std::vector<Error> damaged_;
};

}  // namespace k3::checkpoint
