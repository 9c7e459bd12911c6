#include "model/layers/dense_mlp.hpp"

namespace k3::layers {

bool dense_mlp(const Compute& compute, const checkpoint::MlpWeights& weights, const float* x, std::size_t rows, MlpScratch& s,
               float* out) {
  const std::size_t inner = weights.gate.rows;
  s.gate.resize(rows * inner);
  s.up.resize(rows * inner);
  if (!compute.multiply(weights.gate, x, rows, s.gate.data()) || !compute.multiply(weights.up, x, rows, s.up.data())) return false;
  const auto activate = [&](std::size_t row) {
    float* gate = &s.gate[row * inner];
    compute.kernels.situ(gate, &s.up[row * inner], inner, compute.config.situ_beta, compute.config.situ_linear_beta, gate);
  };
  return compute.each_row(rows, activate) && compute.multiply(weights.down, s.gate.data(), rows, out);
}

}  // namespace k3::layers
