// The bytes of a trunk, to compare how it came into memory.
#pragma once

#include <string>

#include "model/checkpoint/quantise.hpp"
#include "model/checkpoint/weights.hpp"

namespace k3::test {

using checkpoint::KdaWeights;
using checkpoint::Matrix;
using checkpoint::MlaWeights;
using checkpoint::MlpWeights;
using checkpoint::MoeWeights;
using checkpoint::Weights;

// All matrices one after the other, data and scales.
class Matrices {
 public:
  explicit Matrices(const Weights& weights) {
    add(weights.embedding);
    add(weights.head);
    for (const auto& layer : weights.layers) {
      if (const auto* kda = std::get_if<KdaWeights>(&layer.attention)) {
        for (const Matrix& m : {kda->q, kda->k, kda->v, kda->g, kda->o, kda->f_a, kda->f_b, kda->b}) add(m);
      } else {
        const auto& mla = std::get<MlaWeights>(layer.attention);
        for (const Matrix& m : {mla.q_a, mla.q_b, mla.kv_a, mla.kv_b, mla.g, mla.o}) add(m);
      }
      if (const auto* dense = std::get_if<MlpWeights>(&layer.mlp)) {
        for (const Matrix& m : {dense->gate, dense->up, dense->down}) add(m);
      } else {
        const auto& moe = std::get<MoeWeights>(layer.mlp);
        for (const Matrix& m : {moe.router, moe.down, moe.up, moe.shared.gate, moe.shared.up, moe.shared.down}) add(m);
      }
    }
  }
  const std::string& bytes() const { return bytes_; }

 private:
  void add(const Matrix& matrix) {
    const auto size = checkpoint::quantised_size(matrix.precision, matrix.rows, matrix.columns);
    bytes_ += std::to_string(checkpoint::bits(matrix.precision)) + " bits ";
    bytes_.append(static_cast<const char*>(matrix.data), size.bytes);
    if (size.scales != 0) bytes_.append(reinterpret_cast<const char*>(matrix.scale), size.scales * sizeof(float));
  }
  std::string bytes_;
};

}  // namespace k3::test
