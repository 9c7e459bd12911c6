// config.json: every number the maths uses, checked.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "model/error.hpp"

namespace k3::checkpoint {

// Widths count elements. Layer numbers here are zero-based; the lists in the file are one-based.
struct Config {
  std::size_t vocabulary = 0, hidden = 0, layers = 0, dense_inner = 0, dense_layers = 0;
  std::size_t experts = 0, experts_per_token = 0, shared_experts = 0, expert_inner = 0, latent = 0;
  float routed_scaling = 1.0F;
  std::size_t block_size = 0;  // layers per attention-residual block
  std::vector<bool> is_kda;    // [layers]; false: MLA
  // KDA
  std::size_t kda_heads = 0, kda_head_dim = 0;
  float gate_lower_bound = -5.0F;
  static constexpr std::size_t conv_width = 4;
  // MLA
  std::size_t mla_heads = 0, q_rank = 0, kv_rank = 0, nope_dim = 0, rope_dim = 0, v_dim = 0;
  // Elementwise constants
  float rms_eps = 1e-5F;
  // The two MLA latent norms are built without an eps in the reference and so use its class default, not rms_norm_eps.
  static constexpr float mla_latent_eps = 1e-6F;
  float situ_beta = 4.0F, situ_linear_beta = 25.0F;
  std::size_t max_positions = 0;
  std::int32_t bos = 0, eos = 0, pad = 0;

  std::size_t kda_width() const { return kda_heads * kda_head_dim; }
  std::size_t mla_cache_width() const { return kv_rank + rope_dim; }
  std::size_t shared_inner() const { return shared_experts * expert_inner; }
  bool is_dense(std::size_t layer) const { return layer < dense_layers; }
};

// Reads and validates DIRECTORY/config.json. A missing or contradictory key, another model family, or a value this engine does not
// implement is an error that names the key, the value and what is supported.
Result<Config> load_config(const std::filesystem::path& directory);
Result<Config> parse_config(std::string_view json, const std::string& file_name);

}  // namespace k3::checkpoint
