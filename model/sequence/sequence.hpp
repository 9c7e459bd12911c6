// The state of one conversation, with draft and commit.
//
// A step reads committed state and writes a draft: the other buffer of each KDA layer, MLA cache rows past the frontier. commit()
// is the only place that moves the frontier; a step that is never committed leaves no trace, because the next draft overwrites it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "model/checkpoint/config.hpp"
#include "model/sequence/latent_format.hpp"

namespace k3 {

class Sequence {
 public:
  // Memory: two buffers of KDA state a layer (heads * dim^2 floats each, 2 x 434 MB at the released size), and the MLA cache in
  // blocks of `block_rows` positions, allocated as the sequence grows.
  explicit Sequence(const checkpoint::Config& config, LatentFormat latents = LatentFormat::float32);

  std::span<const std::int32_t> ids() const { return ids_; }  // committed tokens
  std::size_t committed() const { return ids_.size(); }

  // --- the step in the making ---
  static constexpr std::size_t block_rows = 64;  // fixed absolute positions: online softmax is blocked alike whatever the chunking
  struct KdaState {
    float* state;      // [heads, keys, values]
    float* conv_tail;  // [heads, 3 (q, k, v), 3 (tokens t-3, t-2, t-1), head_dim]: one head's tails lie together, as one head's
                       // work does
  };
  // Buffers of KDA layer number `index` (counted among KDA layers): where a draft starts from, and where it is written.
  KdaState committed_kda(std::size_t index);
  KdaState draft_kda(std::size_t index);
  LatentFormat latents() const { return latents_; }
  // Writes the cache row of position `position` in MLA layer number `index`; row [kv_rank + rope_dim], whose values must be bf16
  // already where that is the format. Allocates blocks up to it.
  void set_mla_row(std::size_t index, std::size_t position, std::span<const float> row);
  // The block that holds `position` (a multiple of block_rows), [block_rows, kv_rank + rope_dim] of float or of bf16.
  const std::byte* mla_block(std::size_t index, std::size_t position) const;

  // Makes the draft of `tokens` the state. Call once after a step that drafted exactly these.
  void commit(std::span<const std::int32_t> tokens);

 private:
  std::size_t kda_floats_, tail_floats_, mla_width_;
  LatentFormat latents_;
  std::vector<std::int32_t> ids_;
  int current_ = 0;                                             // which of the two buffers is committed
  std::vector<std::unique_ptr<float[]>> kda_[2];                // [kda layers]: state then tails
  std::vector<std::vector<std::unique_ptr<std::byte[]>>> mla_;  // [mla layers][blocks]
};

}  // namespace k3
