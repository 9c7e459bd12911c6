// The trunk as the page cache has it: matrices that are used as they are stored need no memory of our own.
//
// What is mapped must stay as it is. Where a file is cut short under a mapping, or its drive fails, there is no read whose error
// could be returned: the system ends the process.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "model/checkpoint/checkpoint.hpp"
#include "model/checkpoint/stored_matrix.hpp"

namespace k3::checkpoint {

// Fine, or an error that names the first matrix of the first `max_layers` layers (0 = all) that cannot be used where it lies: it
// would have to be rounded, or its numbers do not begin at a multiple of their size.
Result<void> check_mappable(const Checkpoint& checkpoint, std::size_t max_layers, const TrunkPrecision& wanted);

class MappedTrunk {
 public:
  explicit MappedTrunk(const Checkpoint& checkpoint) : checkpoint_(checkpoint), files_(checkpoint.files().size()) {}

  // Where the tensor's bytes are, mapped. Error: the file system refuses.
  Result<const void*> place(const Tensor& tensor, const std::string& name);
  // Keeps all of it mapped.
  std::shared_ptr<const void> storage() const;

 private:
  using Mapping = std::shared_ptr<const char>;

  const Checkpoint& checkpoint_;
  std::vector<Mapping> files_;
};

}  // namespace k3::checkpoint
