#include "model/layers/kda.hpp"

#include <cmath>

namespace k3::layers {

namespace {

constexpr float l2_eps = 1e-6F;  // added to the sum of squares, not to the mean: the reference's l2norm, not an RMS norm

// One head of one sequence, its rows in order. Everything a head needs (state 64 KB, tails, a slice of each row) stays in one
// core's cache.
void run_head(const Compute& compute, const checkpoint::KdaWeights& weights, std::size_t index, const RowGroup& group,
              std::size_t head, KdaScratch& s) {
  const auto& kernels = compute.kernels;
  const std::size_t dim = compute.config.kda_head_dim, heads = compute.config.kda_heads, width = compute.config.kda_width();
  const std::size_t taps = checkpoint::Config::conv_width, tail = (taps - 1) * dim;
  const float q_gain = 1.0F / std::sqrt(static_cast<float>(dim));
  const auto committed = group.sequence->committed_kda(index);
  const auto draft = group.sequence->draft_kda(index);
  float* const state_out = draft.state + head * dim * dim;
  float* const tail_out = draft.conv_tail + head * 3 * tail;
  const float* state_in = committed.state + head * dim * dim;
  const float* tail_in = committed.conv_tail + head * 3 * tail;
  for (std::size_t row = group.first; row < group.first + group.count; ++row) {
    const std::size_t at = row * width + head * dim;
    kernels.conv4_silu(weights.q_conv.data() + head * dim * taps, &s.q[at], tail_in, dim, tail_out, &s.q_conv[at]);
    kernels.conv4_silu(weights.k_conv.data() + head * dim * taps, &s.k[at], tail_in + tail, dim, tail_out + tail, &s.k_conv[at]);
    kernels.conv4_silu(weights.v_conv.data() + head * dim * taps, &s.v[at], tail_in + 2 * tail, dim, tail_out + 2 * tail,
                       &s.v_conv[at]);
    kernels.l2_normalise(&s.q_conv[at], dim, l2_eps, q_gain, &s.q_conv[at]);
    kernels.l2_normalise(&s.k_conv[at], dim, l2_eps, 1.0F, &s.k_conv[at]);
    kernels.kda_decay(&s.decay[at], weights.dt_bias.data() + head * dim, weights.a[head], compute.config.gate_lower_bound, dim,
                      &s.decay[at]);
    kernels.kda_step(state_in, &s.q_conv[at], &s.k_conv[at], &s.v_conv[at], &s.decay[at], s.beta[row * heads + head], dim, dim,
                     state_out, &s.context[at]);
    kernels.rms_norm(&s.context[at], weights.o_norm.data(), dim, compute.config.rms_eps, &s.context[at]);
    kernels.multiply_sigmoid(&s.gate[at], dim, &s.context[at]);
    // From the second row on the draft continues itself.
    state_in = state_out;
    tail_in = tail_out;
  }
}

}  // namespace

void KdaScratch::resize(const checkpoint::Config& config, std::size_t rows) {
  for (auto* buffer : {&q, &k, &v, &q_conv, &k_conv, &v_conv, &gate, &decay, &context}) buffer->resize(rows * config.kda_width());
  decay_low.resize(rows * config.kda_head_dim);
  beta.resize(rows * config.kda_heads);
}

bool kda(const Compute& compute, const checkpoint::KdaWeights& weights, std::size_t index, std::span<const RowGroup> groups,
         Activations& x, KdaScratch& s, float* out) {
  const std::size_t rows = x.rows();
  s.resize(compute.config, rows);
  const bool projected = compute.multiply({{weights.q, s.q.data()},
                                           {weights.k, s.k.data()},
                                           {weights.v, s.v.data()},
                                           {weights.g, s.gate.data()},
                                           {weights.f_a, s.decay_low.data()},
                                           {weights.b, s.beta.data()}},
                                          x);
  if (!projected) return false;
  s.low_input.set(s.decay_low.data(), rows, weights.f_b.columns);
  if (!compute.multiply(weights.f_b, s.low_input, s.decay.data())) return false;
  compute.kernels.sigmoid(s.beta.data(), s.beta.size(), s.beta.data());
  const std::size_t heads = compute.config.kda_heads;
  const auto head_of_group = [&](std::size_t i) { run_head(compute, weights, index, groups[i / heads], i % heads, s); };
  if (!compute.pool.run(groups.size() * heads, head_of_group, compute.proceed)) return false;
  s.context_input.set(s.context.data(), rows, compute.config.kda_width());
  return compute.multiply(weights.o, s.context_input, out);
}

}  // namespace k3::layers
