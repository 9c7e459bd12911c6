#include "model/layers/mla.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

namespace k3::layers {

namespace {

// Latent and shared key of each row go into the cache: [kv_rank normed ‖ rope_dim raw] (NoPE: no rotation).
void append_to_cache(const Compute& compute, const checkpoint::MlaWeights& weights, std::size_t index,
                     std::span<const RowGroup> groups, const MlaScratch& s) {
  const auto& config = compute.config;
  const std::size_t width = config.mla_cache_width();
  for (const RowGroup& group : groups) {
    for (std::size_t i = 0; i < group.count; ++i) {
      const float* kv = &s.kv[(group.first + i) * width];
      float* cached = group.sequence->mla_row(index, group.sequence->committed() + i);
      compute.kernels.rms_norm(kv, weights.kv_norm.data(), config.kv_rank, checkpoint::Config::mla_latent_eps, cached);
      std::copy(kv + config.kv_rank, kv + width, cached + config.kv_rank);
    }
  }
}

// What one head's work needs beside the rows; made once per head and step.
struct Head {
  std::vector<float> up;      // kv_b of this head, widened: [nope, kv_rank] for keys, then [v_dim, kv_rank] for values
  std::vector<float> query;   // [kv_rank ‖ rope]: the query carried into the latent space
  std::vector<float> latent;  // [kv_rank]: the weighted sum of latents

  Head(const Compute& compute, const checkpoint::MlaWeights& weights, std::size_t head)
      : up((compute.config.nope_dim + compute.config.v_dim) * compute.config.kv_rank),
        query(compute.config.mla_cache_width()),
        latent(compute.config.kv_rank) {
    compute.kernels.widen_bf16(weights.kv_b.bf16() + head * up.size(), up.size(), up.data());
  }
};

// Softmax-weighted sum of the latents at positions [0, count), in blocks at fixed absolute positions: how the rows were chunked
// into steps cannot change a bit.
void attend(const Compute& compute, const Sequence& sequence, std::size_t index, std::size_t count, Head& head) {
  const auto& config = compute.config;
  const auto& kernels = compute.kernels;
  const std::size_t width = config.mla_cache_width();
  const float scale = 1.0F / std::sqrt(static_cast<float>(config.nope_dim + config.rope_dim));
  float running_max = -std::numeric_limits<float>::infinity();
  float running_sum = 0.0F;
  std::fill(head.latent.begin(), head.latent.end(), 0.0F);
  std::array<float, Sequence::block_rows> scores;
  for (std::size_t start = 0; start < count; start += Sequence::block_rows) {
    const std::size_t keys = std::min(Sequence::block_rows, count - start);
    const float* block = sequence.mla_block(index, start);
    kernels.dot_rows(head.query.data(), block, width, keys, width, scale, scores.data());
    const float shrink = kernels.online_softmax(scores.data(), keys, &running_max, &running_sum);
    kernels.scale(shrink, head.latent.data(), config.kv_rank, head.latent.data());
    kernels.accumulate_rows(scores.data(), block, width, keys, config.kv_rank, head.latent.data());
  }
  kernels.scale(1.0F / running_sum, head.latent.data(), config.kv_rank, head.latent.data());
}

// Rows one task takes: long contexts make a row expensive, so that a head's whole chunk would be too far between two cancellation
// points; fewer rows would widen the head's weights more often than use them.
constexpr std::size_t task_rows = 32;

// One head, rows [first, last) of the batch.
void run_head(const Compute& compute, const checkpoint::MlaWeights& weights, std::size_t index, std::span<const RowGroup> groups,
              std::size_t head_index, std::size_t first, std::size_t last, MlaScratch& s) {
  const auto& config = compute.config;
  const std::size_t q_width = config.nope_dim + config.rope_dim;
  Head head(compute, weights, head_index);
  const float* values_up = head.up.data() + config.nope_dim * config.kv_rank;
  for (const RowGroup& group : groups) {
    const std::size_t end = std::min(last, group.first + group.count);
    for (std::size_t row = std::max(first, group.first); row < end; ++row) {
      const float* q = &s.q[(row * config.mla_heads + head_index) * q_width];
      std::fill(head.query.begin(), head.query.end(), 0.0F);
      compute.kernels.accumulate_rows(q, head.up.data(), config.kv_rank, config.nope_dim, config.kv_rank, head.query.data());
      std::copy(q + config.nope_dim, q + q_width, head.query.begin() + static_cast<std::ptrdiff_t>(config.kv_rank));
      attend(compute, *group.sequence, index, group.sequence->committed() + row - group.first + 1, head);
      float* context = &s.context[(row * config.mla_heads + head_index) * config.v_dim];
      compute.kernels.matmul_f32(values_up, config.v_dim, config.kv_rank, head.latent.data(), 1, config.kv_rank, context,
                                 config.v_dim);
    }
  }
}

}  // namespace

void MlaScratch::resize(const checkpoint::Config& config, std::size_t rows) {
  q_low.resize(rows * config.q_rank);
  q.resize(rows * config.mla_heads * (config.nope_dim + config.rope_dim));
  kv.resize(rows * config.mla_cache_width());
  gate.resize(rows * config.mla_heads * config.v_dim);
  context.resize(gate.size());
}

bool mla(const Compute& compute, const checkpoint::MlaWeights& weights, std::size_t index, std::span<const RowGroup> groups,
         Activations& x, MlaScratch& s, float* out) {
  const std::size_t rows = x.rows(), q_rank = compute.config.q_rank;
  s.resize(compute.config, rows);
  const auto norm_query = [&](std::size_t row) {
    compute.kernels.rms_norm(&s.q_low[row * q_rank], weights.q_norm.data(), q_rank, checkpoint::Config::mla_latent_eps,
                             &s.q_low[row * q_rank]);
  };
  const bool lowered =
      compute.multiply({{weights.q_a, s.q_low.data()}, {weights.kv_a, s.kv.data()}, {weights.g, s.gate.data()}}, x) &&
      compute.each_row(rows, norm_query);
  if (!lowered) return false;
  s.low_input.set(s.q_low.data(), rows, q_rank);
  if (!compute.multiply(weights.q_b, s.low_input, s.q.data())) return false;
  append_to_cache(compute, weights, index, groups, s);
  const std::size_t heads = compute.config.mla_heads;
  const auto task = [&](std::size_t i) {
    const std::size_t first = i / heads * task_rows;
    run_head(compute, weights, index, groups, i % heads, first, std::min(rows, first + task_rows), s);
  };
  if (!compute.pool.run((rows + task_rows - 1) / task_rows * heads, task, compute.proceed)) return false;
  compute.kernels.multiply_sigmoid(s.gate.data(), s.gate.size(), s.context.data());
  s.context_input.set(s.context.data(), rows, heads * compute.config.v_dim);
  return compute.multiply(weights.o, s.context_input, out);
}

}  // namespace k3::layers
