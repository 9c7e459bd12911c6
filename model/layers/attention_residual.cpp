#include "model/layers/attention_residual.hpp"

#include <array>
#include <cassert>

namespace k3::layers {

namespace {
// The released model has 9 candidates (93 layers in blocks of 12, and the running sum). The bound only sizes an array on the stack;
// the config check keeps layers / block_size below it.
constexpr std::size_t max_candidates = 256;
}  // namespace

void ResidualStream::reset(std::size_t rows, std::size_t hidden, std::size_t max_snapshots) {
  used = 0;
  running_sum.resize(rows * hidden);
  snapshots.resize(max_snapshots);
  for (auto& snapshot : snapshots) snapshot.resize(rows * hidden);
}

void ResidualStream::take_snapshot() {
  assert(used < snapshots.size());
  snapshots[used++].swap(running_sum);
}

bool mix(const Compute& compute, const ResidualStream& stream, const checkpoint::ResidualWeights& weights, std::size_t rows,
         float* out) {
  const std::size_t hidden = compute.config.hidden;
  const std::size_t candidates = stream.used + 1;
  assert(candidates <= max_candidates);
  const auto candidate = [&](std::size_t i, std::size_t row) {
    return (i < stream.used ? stream.snapshots[i] : stream.running_sum).data() + row * hidden;
  };
  return compute.each_row(rows, [&](std::size_t row) {
    std::array<float, max_candidates> share;
    for (std::size_t i = 0; i < candidates; ++i) {
      share[i] = compute.kernels.normed_dot(candidate(i, row), weights.score.data(), hidden, compute.config.rms_eps);
    }
    compute.kernels.softmax(share.data(), candidates);
    float* y = out + row * hidden;
    compute.kernels.scale(share[0], candidate(0, row), hidden, y);
    for (std::size_t i = 1; i < candidates; ++i) compute.kernels.axpy(share[i], candidate(i, row), hidden, y);
  });
}

}  // namespace k3::layers
