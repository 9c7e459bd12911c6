// What a prepared container holds, and in which of its shards it lies: shard i + 1 has layer i, the last one the globals; in a
// shard the experts by id, each with its six tensors back to back, then the matrices, each before its scales, then what is small.
// Data starts on a page, and a released expert has a whole number of pages, so that each is one aligned read.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "model/checkpoint/stored_matrix.hpp"
#include "model/checkpoint/tensor_list.hpp"

namespace k3::checkpoint {

// A source tensor that is copied, or a matrix that is rounded and makes two tensors: itself and its scales.
struct ContainerPart {
  Tensor source;
  StoredMatrix matrix{};  // when it is rounded
  Precision to = Precision::bf16;
  bool rounded = false;
};

struct ContainerShard {
  std::string file;                     // its name
  std::vector<ExpectedTensor> tensors;  // as written, with the prefix "language_model.", in the order of their data
  std::vector<ContainerPart> parts;     // what makes them, in the same order
  std::uint64_t data_bytes() const;
};

// A trunk alone leaves the experts where they are: in the shards of its source, which its index names.
enum class Contents : std::uint8_t { all, trunk };
bool is_trunk_shard(std::string_view file);  // by its name, which no shard of a source has

class ContainerPlan {
 public:
  // Looks through all headers: a tensor that two shards hold is an error, for one of them would be lost. Tensors that the model
  // does not ask for are taken along as they are, vision excepted. `checkpoint` must outlive the plan.
  static Result<ContainerPlan> make(const Checkpoint& checkpoint, const TrunkPrecision& precision, Contents contents);

  std::size_t shards() const;
  std::string file(std::size_t shard) const;
  // shard counts from 0
  ContainerShard shard(std::size_t shard) const;
  const TrunkPrecision& precision() const { return precision_; }
  Contents contents() const { return contents_; }
  const Checkpoint& source() const { return *checkpoint_; }

 private:
  ContainerPlan(const Checkpoint& checkpoint, const TrunkPrecision& precision, Contents contents, std::vector<std::string> others)
      : checkpoint_(&checkpoint), precision_(precision), contents_(contents), others_(std::move(others)) {}

  const Checkpoint* checkpoint_;
  TrunkPrecision precision_;
  Contents contents_;
  std::vector<std::string> others_;  // tensors the model does not ask for
};

}  // namespace k3::checkpoint
