// Attention residuals (AttnRes): a layer's input is a softmax mix of what the blocks before it left behind.
#pragma once

#include <vector>

#include "model/layers/compute.hpp"

namespace k3::layers {

// The residual stream of a batch: snapshots at block starts, and the running sum since. All [rows, hidden].
struct ResidualStream {
  std::vector<std::vector<float>> snapshots;
  std::size_t used = 0;  // snapshots in use; their memory is kept for the next step
  std::vector<float> running_sum;

  void reset(std::size_t rows, std::size_t hidden, std::size_t max_snapshots);
  // Appends the running sum to the snapshots; the caller overwrites the running sum next.
  void take_snapshot();
};

// out[rows, hidden] = sum_i softmax_i(s)_i * v_i over the candidates v = snapshots ++ [running sum], with scores
// s_i = rsqrt(mean(v_i^2) + eps) * (score . v_i). The mixed values are not normalised.
bool mix(const Compute& compute, const ResidualStream& stream, const checkpoint::ResidualWeights& weights, std::size_t rows,
         float* out);

}  // namespace k3::layers
