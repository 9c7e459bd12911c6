// The latent mixture of experts: routed experts work on a narrow projection of the input, shared experts on the input itself.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <optional>
#include <vector>

#include "model/experts/expert_stream.hpp"
#include "model/layers/compute.hpp"
#include "model/layers/dense_mlp.hpp"
#include "model/layers/router.hpp"

namespace k3::layers {

struct MoeScratch {
  std::vector<float> scores, latent, sum, shared, gathered, gate, up, expert_out;
  std::vector<std::vector<Choice>> choices;          // [rows]
  std::vector<experts::ExpertKey> wanted;            // ascending
  std::vector<std::pair<std::size_t, float>> users;  // rows of the expert at hand, with their weights
  MlpScratch mlp;
};

struct MoeStep {
  const checkpoint::MoeWeights& weights;
  std::size_t layer;
  const float* x;  // [rows, hidden], normed
  std::size_t rows;
  float expert_top_p;
  experts::ExpertStream& stream;
  std::stop_token stop;
  FunctionRef<bool()> between_experts;            // a cancellation point
  std::vector<std::optional<Error>>& row_errors;  // [rows]: set where an expert could not be read
  float* out;                                     // [rows, hidden]
};

// Reads begin as soon as the router has spoken; the latent projection and the shared experts are computed while they travel. A
// row's experts are summed in ascending id, whenever their bytes arrived. False: told to stop. All references must outlive the
// await.
boost::asio::awaitable<bool> latent_moe(const Compute& compute, const MoeStep& step, MoeScratch& scratch);

}  // namespace k3::layers
