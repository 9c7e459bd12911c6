// Gated multi-head latent attention without positional encoding, in the absorbed form: queries are carried into the latent space,
// so that the cache holds one latent row a token for all heads.
#pragma once

#include <vector>

#include "model/layers/compute.hpp"

namespace k3::layers {

struct MlaScratch {
  std::vector<float> q_low, q, kv, gate, context;
  Activations low_input, context_input;
  void resize(const checkpoint::Config& config, std::size_t rows);
};

// out[rows, hidden] = MLA(x [rows, hidden]), x already normed. `index` counts MLA layers. Writes the rows' latents past each
// sequence's frontier, attends to everything up to each row's own position.
bool mla(const Compute& compute, const checkpoint::MlaWeights& weights, std::size_t index, std::span<const RowGroup> groups,
         Activations& x, MlaScratch& scratch, float* out);

}  // namespace k3::layers
