#include "model/sequence/sequence.hpp"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cstring>

namespace k3 {

Sequence::Sequence(const checkpoint::Config& config, LatentFormat latents)
    : kda_floats_(config.kda_heads * config.kda_head_dim * config.kda_head_dim),
      tail_floats_(3 * (checkpoint::Config::conv_width - 1) * config.kda_width()),
      mla_width_(config.mla_cache_width()),
      latents_(latents) {
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

void Sequence::set_mla_row(std::size_t index, std::size_t position, std::span<const float> row) {
  assert(row.size() == mla_width_);
  auto& blocks = mla_[index];
  const std::size_t row_bytes = mla_width_ * latent_bytes(latents_);
  while (blocks.size() <= position / block_rows) blocks.push_back(std::make_unique<std::byte[]>(block_rows * row_bytes));
  std::byte* const to = blocks[position / block_rows].get() + position % block_rows * row_bytes;
  if (latents_ == LatentFormat::float32) {
    std::memcpy(to, row.data(), row_bytes);
    return;
  }
  for (std::size_t i = 0; i < row.size(); ++i) {
    const auto upper = static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(row[i]) >> 16U);
    std::memcpy(to + i * sizeof(upper), &upper, sizeof(upper));
  }
}

const std::byte* Sequence::mla_block(std::size_t index, std::size_t position) const {
  assert(position / block_rows < mla_[index].size());
  return mla_[index][position / block_rows].get();
}

void Sequence::commit(std::span<const std::int32_t> tokens) {
  assert(!tokens.empty());
  ids_.insert(ids_.end(), tokens.begin(), tokens.end());
  current_ = 1 - current_;
}

}  // namespace k3
