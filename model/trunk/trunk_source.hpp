// All that a step takes from the drive beside experts: blocks of matrices, and single rows of the embedding.
#pragma once

#include <memory>
#include <vector>

#include "model/checkpoint/copies.hpp"
#include "model/trunk/trunk_stream.hpp"

namespace k3::trunk {

class TrunkSource {
 public:
  // Used and destroyed on the thread that opens it; `weights` must outlive it.
  static Result<std::unique_ptr<TrunkSource>> open(const checkpoint::Checkpoint& checkpoint, const checkpoint::Weights& weights,
                                                   const TrunkStreamOptions& options);

  TrunkStream* stream() const { return stream_.get(); }  // nullptr: only the embedding stays on the drive
  // The row of a token [hidden], where the embedding stays on the drive; valid until the next call.
  Result<const std::uint16_t*> embedding_row(std::size_t token);

 private:
  const checkpoint::Weights* weights_ = nullptr;
  std::unique_ptr<TrunkStream> stream_;
  checkpoint::AnyCopy embedding_file_;
  std::vector<std::uint16_t> row_;
};

}  // namespace k3::trunk
