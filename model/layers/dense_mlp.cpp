#include "model/layers/dense_mlp.hpp"

namespace k3::layers {

bool dense_mlp(const Compute& compute, const checkpoint::MlpWeights& weights, Activations& x, MlpScratch& s, float* out) {
  const std::size_t inner = weights.gate.rows, rows = x.rows();
  s.gate.resize(rows * inner);
  s.up.resize(rows * inner);
  if (!compute.multiply({{weights.gate, s.gate.data()}, {weights.up, s.up.data()}}, x)) return false;
  const auto activate = [&](std::size_t row) {
    float* gate = &s.gate[row * inner];
    compute.kernels.situ(gate, &s.up[row * inner], inner, compute.config.situ_beta, compute.config.situ_linear_beta, gate);
  };
  if (!compute.each_row(rows, activate)) return false;
  s.inner.set(s.gate.data(), rows, inner);
  return compute.multiply(weights.down, s.inner, out);
}

}  // namespace k3::layers
