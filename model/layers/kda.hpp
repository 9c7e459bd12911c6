// Kimi Delta Attention: a gated delta rule over a fixed-size state per head, with short convolutions before it.
#pragma once

#include <vector>

#include "model/layers/compute.hpp"

namespace k3::layers {

// Scratch of a step, [rows, width] each, kept from step to step.
struct KdaScratch {
  std::vector<float> q, k, v, q_conv, k_conv, v_conv, gate, decay_low, decay, beta, context;
  Activations low_input, context_input;
  void resize(const checkpoint::Config& config, std::size_t rows);
};

// out[rows, hidden] = KDA(x [rows, hidden]), x already normed. `index` counts KDA layers. Reads each sequence's committed state,
// writes its draft.
bool kda(const Compute& compute, const checkpoint::KdaWeights& weights, std::size_t index, std::span<const RowGroup> groups,
         Activations& x, KdaScratch& scratch, float* out);

}  // namespace k3::layers
