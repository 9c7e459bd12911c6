// The data of one shard of a container, made from the source as it streams by.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "model/checkpoint/container_plan.hpp"
#include "model/checkpoint/copies.hpp"

namespace k3::checkpoint {

// A shard's data, cut at the end of each tensor and after piece_bytes of one: the blocks that checksums are of. `at` counts in the
// tensor.
using TakeBlock = std::function<Result<void>(std::size_t tensor, std::uint64_t at, std::span<const char> block)>;

class ContainerBytes {
 public:
  explicit ContainerBytes(const Checkpoint& source) : source_(source) {
    for (const File& file : source.files()) files_.emplace_back(file);
  }

  // All of the shard's data in order. Memory: two blocks, and the scales of one matrix (73 MB for a released head in 4 bits).
  Result<void> stream(const ContainerShard& shard, const TakeBlock& take);
  // Tells this shard of this source from another's: what its tensors are, and the first page of every matrix and vector and of some
  // experts.
  Result<std::string> identity(const ContainerShard& shard);

 private:
  class Cutter;
  Result<void> read(const Tensor& tensor, std::uint64_t at, void* to, std::uint64_t bytes);
  // Asks the kernel to read what comes after `part`, so that the drive reads while this computes and writes.
  void read_ahead(const ContainerShard& shard, std::size_t part);
  Result<void> copy(const ContainerPart& part, Cutter& cutter);
  Result<void> round(const ContainerPart& part, Cutter& cutter);
  Error not_finite(const ContainerPart& part, std::uint64_t at) const;

  const Checkpoint& source_;
  std::vector<AnyCopy> files_;  // by Tensor::file
  std::vector<char> input_, output_;
  std::size_t ahead_ = 0;  // parts up to here were asked for
  std::uint64_t ahead_bytes_ = 0;
};

}  // namespace k3::checkpoint
