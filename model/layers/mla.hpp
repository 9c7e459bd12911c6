// Gated multi-head latent attention without positional encoding, in the absorbed form: queries are carried into the latent space,
// so that the cache holds one latent row a token for all heads.
#pragma once

#include <vector>

#include "model/layers/compute.hpp"

namespace k3::layers {

// What one thread needs for its share of heads and rows.
struct AttendScratch {
  std::vector<float> up;                        // half of kv_b of one head, widened: [nope or v, kv_rank]
  std::vector<float> query, latent;             // [queries, kv_rank ‖ rope], [queries, kv_rank]
  std::vector<float> scores;                    // [queries, keys of a block]
  std::vector<float> keys;                      // a block of the cache, widened: [keys, kv_rank ‖ rope]
  std::vector<float> running_max, running_sum;  // [queries]
};

struct MlaScratch {
  std::vector<float> q_low, q, kv, gate, context;
  Activations low_input, context_input;
  std::vector<AttendScratch> attend;  // [threads]
  void resize(const checkpoint::Config& config, std::size_t rows, unsigned threads);
};

// out[rows, hidden] = MLA(x [rows, hidden]), x already normed. `index` counts MLA layers. Writes the rows' latents past each
// sequence's frontier, attends to everything up to each row's own position.
bool mla(const Compute& compute, const checkpoint::MlaWeights& weights, std::size_t index, std::span<const RowGroup> groups,
         Activations& x, MlaScratch& scratch, float* out);

// The attention itself, for `heads` heads from `head` on and rows [first, last) of one sequence's group: from s.q and the cache to
// s.context.
struct HeadRange {
  std::size_t first, count;
};
void attend(const Compute& compute, const checkpoint::MlaWeights& weights, std::size_t index, const RowGroup& group,
            HeadRange heads, std::size_t first, std::size_t last, MlaScratch& s);

}  // namespace k3::layers
