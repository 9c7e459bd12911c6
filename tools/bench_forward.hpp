// Runs a loaded model over made-up ids and takes the time: a prompt in chunks, or tokens one by one.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "model/loaded_model.hpp"
#include "model/routes.hpp"
#include "tools/bench.hpp"

namespace k3::cli {

struct ForwardPlan {
  std::size_t prompt = 0;                        // tokens, in chunks of the model's
  std::size_t decode = 0;                        // tokens after that, each the likeliest; 0: the prompt is what is measured
  std::function<void(ComputePool&)> after_turn;  // of some seconds of decoding, for what else is measured in turn with it
  const Routes* routes = nullptr;                // expert choices imposed on the tokens decoded, in turn
};

// The drive drifts: so tokens and plain reads of the model's files take turns of some seconds.
struct DriveTurns {
  std::vector<double> plain;   // bytes a second of `k3 bench io` with blocks as large as an expert
  std::vector<double> tokens;  // while at least one read of an expert was in flight
};

struct ForwardTimes {
  double seconds = 0;                      // of what is measured
  std::vector<layers::LayerTimes> layers;  // [steps, layers], of what is measured
  DriveTurns drive;                        // of decoding, where experts come from the drive
  experts::StreamCounters experts;
  layers::PredictionMeter predicted;
  trunk::TrunkCounters trunk;     // of matrices that do not fit into memory
  bool all_resident = false;      // before the measurement began, every expert was in memory
  std::uint64_t peak_rss = 0;     // largest RssAnon + RssShmem seen between steps; mapped clean pages do not count
  std::vector<std::int32_t> ids;  // decoded while measured
};

// Not measured is what goes before: where there is room for all experts, their reading; for tokens, the prompt and one token; for a
// prompt, the same prompt once, if all experts are there.
Result<ForwardTimes> time_forward(const LoadedModel& model, const ForwardPlan& plan, BenchProgress& progress);

// What a token has to do with, at least.
struct TokenCost {
  double trunk_bytes = 0;    // matrices that every token passes, the head among them; of the embedding one row
  double trunk_weights = 0;  // the same matrices without the head, which only the last token of a prompt meets
  double expert_weights = 0;
};
TokenCost cost_of_a_token(const LoadedModel& model);

}  // namespace k3::cli
