// The gated MLP with SiTU activation: layer 0's dense one and every layer's shared experts.
#pragma once

#include <vector>

#include "model/layers/compute.hpp"

namespace k3::layers {

struct MlpScratch {
  std::vector<float> gate, up;
  Activations inner;
};

// out[rows, hidden] = down . situ(gate . x, up . x)
bool dense_mlp(const Compute& compute, const checkpoint::MlpWeights& weights, Activations& x, MlpScratch& scratch, float* out);

}  // namespace k3::layers
