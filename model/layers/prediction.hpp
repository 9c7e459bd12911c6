// Which experts the next layer's router will probably choose, asked of the residual stream as it is one layer before.
#pragma once

#include <optional>
#include <vector>

#include "model/experts/expert_stream.hpp"
#include "model/layers/attention_residual.hpp"
#include "model/layers/router.hpp"

namespace k3::layers {

// What came of it, over all steps of few rows.
struct PredictionMeter {
  std::uint64_t chosen = 0;    // experts that a layer's rows chose, counted where there was a prediction
  std::uint64_t foreseen = 0;  // of those, predicted: as many are looked at as were chosen
  std::uint64_t repeated = 0;  // of those, chosen in the step before too
};

class Prediction {
 public:
  // The likeliest first; valid until the next call. The layer's own mix, norm and router are asked, too early: what its attention
  // and the experts before it will add is not there yet. nullopt: told to stop.
  std::optional<std::span<const experts::ExpertKey>> predict(const Compute& compute, const ResidualStream& stream,
                                                             const checkpoint::LayerWeights& weights, std::size_t layer,
                                                             std::size_t rows);
  // The layer's router has spoken.
  void judge(std::size_t layer, std::span<const std::vector<Choice>> chosen);
  const PredictionMeter& meter() const { return meter_; }

 private:
  std::vector<float> input_, scores_, likelihood_;
  Activations activations_;
  std::vector<Choice> choices_;
  std::vector<experts::ExpertKey> keys_;
  std::size_t layer_ = 0;                           // that keys_ are of
  std::vector<std::vector<std::uint32_t>> before_;  // [layers]: chosen in the step before, ascending
  std::vector<std::uint32_t> now_;
  PredictionMeter meter_;
};

}  // namespace k3::layers
