#include "model/layers/prediction.hpp"

#include <algorithm>

namespace k3::layers {

std::optional<std::span<const experts::ExpertKey>> Prediction::predict(const Compute& compute, const ResidualStream& stream,
                                                                       const checkpoint::LayerWeights& weights, std::size_t layer,
                                                                       std::size_t rows) {
  const checkpoint::Config& config = compute.config;
  const auto& moe = std::get<checkpoint::MoeWeights>(weights.mlp);
  keys_.clear();
  layer_ = layer;
  input_.resize(rows * config.hidden);
  if (!mix(compute, stream, weights.mlp_residual, rows, input_.data())) return std::nullopt;
  for (std::size_t row = 0; row < rows; ++row) {
    float* const x = &input_[row * config.hidden];
    compute.kernels.rms_norm(x, weights.post_attention_norm.data(), config.hidden, config.rms_eps, x);
  }
  activations_.set(input_.data(), rows, config.hidden);
  if (!score_experts(compute, moe.router, activations_, scores_)) return std::nullopt;
  likelihood_.assign(config.experts, 0.0F);
  for (std::size_t row = 0; row < rows; ++row) {
    choose_experts({&scores_[row * config.experts], config.experts}, moe.router_bias, config.experts_per_token, 1.0F, 1.0F,
                   choices_);
    for (const Choice& choice : choices_) likelihood_[choice.expert] += choice.weight;
  }
  for (std::uint32_t expert = 0; expert < config.experts; ++expert) {
    if (likelihood_[expert] > 0) keys_.push_back({static_cast<std::uint32_t>(layer), expert});
  }
  std::sort(keys_.begin(), keys_.end(), [this](const experts::ExpertKey& a, const experts::ExpertKey& b) {
    const float of_a = likelihood_[a.expert], of_b = likelihood_[b.expert];
    return of_a != of_b ? of_a > of_b : a.expert < b.expert;
  });
  return keys_;
}

void Prediction::judge(std::size_t layer, std::span<const std::vector<Choice>> chosen) {
  now_.clear();
  for (const std::vector<Choice>& row : chosen) {
    for (const Choice& choice : row) now_.push_back(choice.expert);
  }
  std::sort(now_.begin(), now_.end());
  now_.erase(std::unique(now_.begin(), now_.end()), now_.end());
  if (before_.size() <= layer) before_.resize(layer + 1);
  std::vector<std::uint32_t>& before = before_[layer];
  if (layer == layer_ && !keys_.empty()) {
    const auto is_chosen = [this](std::uint32_t expert) { return std::binary_search(now_.begin(), now_.end(), expert); };
    meter_.chosen += now_.size();
    for (std::size_t i = 0; i < std::min(keys_.size(), now_.size()); ++i) meter_.foreseen += is_chosen(keys_[i].expert);
    for (const std::uint32_t expert : before) meter_.repeated += is_chosen(expert);
    keys_.clear();
  }
  before.swap(now_);
}

}  // namespace k3::layers
