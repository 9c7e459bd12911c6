// The latent mixture of experts: routed experts work on a narrow projection of the input, shared experts on the input itself.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <optional>
#include <vector>

#include "model/experts/expert_stream.hpp"
#include "model/layers/compute.hpp"
#include "model/layers/dense_mlp.hpp"
#include "model/layers/router.hpp"
#include "model/layers/step_times.hpp"

namespace k3::layers {

// Experts that are in memory together and computed together: the threads meet twice for all of them, not for each. Each has its
// rows of the batch, gathered; the rows of all stand one after the other.
struct ExpertWave {
  struct Part {
    experts::Lease lease;
    std::size_t first = 0, rows = 0;
  };
  struct User {
    std::size_t row;
    float weight;
  };
  std::vector<Part> parts;  // by ascending expert
  std::vector<User> users;  // [gathered rows]
  // [gathered rows, ...]: the input in the form that the mode asks for, the inner activations likewise, and the output
  std::vector<float> x, gate, up, out;
  std::vector<kernels::Block> x_blocks, inner_blocks;

  void clear() {
    parts.clear();
    users.clear();
  }
};

struct MoeScratch {
  std::vector<float> scores, latent, sum, shared;
  Activations latent_input, sum_input;
  std::vector<std::vector<Choice>> choices;        // [rows]
  std::vector<experts::ExpertKey> wanted;          // ascending
  std::vector<float> worth, wanted_worth;          // [experts], and of `wanted`: what the next token may need again
  std::vector<ExpertWave::User> users;             // of expert 0, then of expert 1, ..., each by ascending row
  std::vector<std::size_t> first_user, next_user;  // [experts + 1]: where an expert's users begin
  ExpertWave wave;
  MlpScratch mlp;
};

struct MoeStep {
  const checkpoint::MoeWeights& weights;
  std::size_t layer;
  Activations& x;  // [rows, hidden], normed
  std::span<const RowGroup> groups;
  float expert_top_p;
  experts::ExpertStream& stream;
  std::stop_token stop;
  FunctionRef<bool()> between_experts;                       // a cancellation point
  FunctionRef<void(std::span<std::vector<Choice>>)> chosen;  // told what the router chose, and may change it
  FunctionRef<bool()> while_travelling;                      // called when nothing is left to do without experts; false: stop
  std::vector<std::optional<Error>>& row_errors;             // [rows]: set where an expert could not be read
  StepTimes& times;
  float* out;  // [rows, hidden]
};

// Reads begin as soon as the router has spoken; the latent projection and the shared experts are computed while they travel. A
// row's experts are summed in ascending id, whenever their bytes arrived. False: told to stop. All references must outlive the
// await.
boost::asio::awaitable<bool> latent_moe(const Compute& compute, const MoeStep& step, MoeScratch& scratch);

// The routed part of a wave: sum[row] += weight * w2 . situ(w1 . z, w3 . z) for each of its users, z = latent[row].
bool run_wave(const Compute& compute, const Activations& latent, ExpertWave& wave, float* sum);

}  // namespace k3::layers
