#include "model/layers/mla.hpp"

#include <algorithm>

namespace k3::layers {

namespace {

// Latent and shared key of each row go into the cache: [kv_rank normed ‖ rope_dim raw] (NoPE: no rotation). Changes s.kv.
void append_to_cache(const Compute& compute, const checkpoint::MlaWeights& weights, std::size_t index,
                     std::span<const RowGroup> groups, MlaScratch& s) {
  const auto& config = compute.config;
  const std::size_t width = config.mla_cache_width();
  for (const RowGroup& group : groups) {
    for (std::size_t i = 0; i < group.count; ++i) {
      float* const kv = &s.kv[(group.first + i) * width];
      compute.kernels.rms_norm(kv, weights.kv_norm.data(), config.kv_rank, checkpoint::Config::mla_latent_eps, kv);
      if (group.sequence->latents() == LatentFormat::bf16) compute.kernels.round_bf16(kv, width, kv);
      group.sequence->set_mla_row(index, group.sequence->committed() + i, {kv, width});
    }
  }
}

// Queries (a head of a row each) that one task takes: enough to keep a block of keys busy while it is in the cache, few enough that
// a long context does not put cancellation points far apart.
constexpr std::size_t task_queries = 32;
// Heads at once where rows are few: 8 still make 12 tasks of the released 96.
constexpr std::size_t task_heads = 8;

}  // namespace

void MlaScratch::resize(const checkpoint::Config& config, std::size_t rows, unsigned threads) {
  attend.resize(threads);
  q_low.resize(rows * config.q_rank);
  q.resize(rows * config.mla_heads * (config.nope_dim + config.rope_dim));
  kv.resize(rows * config.mla_cache_width());
  gate.resize(rows * config.mla_heads * config.v_dim);
  context.resize(gate.size());
}

bool mla(const Compute& compute, const checkpoint::MlaWeights& weights, std::size_t index, std::span<const RowGroup> groups,
         Activations& x, MlaScratch& s, float* out) {
  const std::size_t rows = x.rows(), q_rank = compute.config.q_rank;
  s.resize(compute.config, rows, compute.pool.threads());
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
  const std::size_t task_rows = std::min(rows, task_queries);
  const std::size_t group_heads = std::clamp<std::size_t>(task_queries / task_rows, 1, task_heads);
  const std::size_t head_tasks = (heads + group_heads - 1) / group_heads;
  const auto task = [&](std::size_t i) {
    const std::size_t first = i / head_tasks * task_rows, last = std::min(rows, first + task_rows);
    const std::size_t head = i % head_tasks * group_heads;
    for (const RowGroup& group : groups) {
      const std::size_t from = std::max(first, group.first), to = std::min(last, group.first + group.count);
      if (from < to) attend(compute, weights, index, group, {head, std::min(group_heads, heads - head)}, from, to, s);
    }
  };
  if (!compute.pool.run((rows + task_rows - 1) / task_rows * head_tasks, task, compute.proceed)) return false;
  compute.kernels.multiply_sigmoid(s.gate.data(), s.gate.size(), s.context.data());
  s.context_input.set(s.context.data(), rows, heads * compute.config.v_dim);
  return compute.multiply(weights.o, s.context_input, out);
}

}  // namespace k3::layers
