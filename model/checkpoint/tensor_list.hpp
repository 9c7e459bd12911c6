// Which tensors a config demands, with type and shape: the one list that the loader checks, synth writes and verify reads.
#pragma once

#include <string>
#include <vector>

#include "model/checkpoint/checkpoint.hpp"

namespace k3::checkpoint {

struct ExpectedTensor {
  std::string name;  // without the prefix "language_model."
  DType dtype = DType::bf16;
  std::array<std::uint64_t, 4> shape{};
  std::uint8_t rank = 0;
  bool padded = false;  // the first dimension may be larger: A_log is released with 128 entries for 96 heads
  std::uint64_t bytes() const;
  bool matches(const Tensor& tensor) const;
};

// The projections of attention residuals are vectors that were released as matrices of one row.
inline bool is_matrix(const ExpectedTensor& tensor) {
  return tensor.dtype == DType::bf16 && tensor.rank == 2 && tensor.shape[0] > 1;
}

// Of one layer, experts excepted.
std::vector<ExpectedTensor> expected_layer(const Config& config, std::size_t layer);
// Embedding, head and what follows the last layer.
std::vector<ExpectedTensor> expected_globals(const Config& config);

// The six parts of an expert in the order of ExpertLocation; the names are the endings, e.g. "w1.weight_packed".
std::array<ExpectedTensor, 6> expected_expert(const Config& config);
std::string expert_prefix(std::size_t layer, std::size_t expert);  // "model.layers.3.block_sparse_moe.experts.7."

}  // namespace k3::checkpoint
