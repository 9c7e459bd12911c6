#include "model/sequence/sequence.hpp"

#include <algorithm>
#include <cassert>

namespace k3 {

Sequence::Sequence(const checkpoint::Config& config)
    : kda_floats_(config.kda_heads * config.kda_head_dim * config.kda_head_dim),
      tail_floats_(3 * (checkpoint::Config::conv_width - 1) * config.kda_width()),
      mla_width_(config.mla_cache_width()) {
  const auto kda_layers = static_cast<std::size_t>(std::count(config.is_kda.begin(), config.is_kda.end(), true));
  for (auto& buffers : kda_) {
    for (std::size_t i = 0; i < kda_layers; ++i) buffers.push_back(std::make_unique<float[]>(kda_floats_ + tail_floats_));
  }
  mla_.resize(config.layers - kda_layers);
}

Sequence::KdaState Sequence::committed_kda(std::size_t index) {
  float* start = kda_[current_][index].get();
  return {start, start + kda_floats_};
}

Sequence::KdaState Sequence::draft_kda(std::size_t index) {
  float* start = kda_[1 - current_][index].get();
  return {start, start + kda_floats_};
}

float* Sequence::mla_row(std::size_t index, std::size_t position) {
  auto& blocks = mla_[index];
  while (blocks.size() <= position / block_rows) blocks.push_back(std::make_unique<float[]>(block_rows * mla_width_));
  return blocks[position / block_rows].get() + (position % block_rows) * mla_width_;
}

const float* Sequence::mla_block(std::size_t index, std::size_t position) const {
  assert(position / block_rows < mla_[index].size());
  return mla_[index][position / block_rows].get();
}

void Sequence::commit(std::span<const std::int32_t> tokens) {
  assert(!tokens.empty());
  ids_.insert(ids_.end(), tokens.begin(), tokens.end());
  current_ = 1 - current_;
}

}  // namespace k3
