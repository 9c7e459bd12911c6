// The layer loop over a batch of rows.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <functional>
#include <optional>
#include <span>
#include <stop_token>
#include <vector>

#include "kernels/kernels.hpp"
#include "model/checkpoint/weights.hpp"
#include "model/compute_pool.hpp"
#include "model/experts/expert_stream.hpp"
#include "model/layers/prediction.hpp"
#include "model/layers/step_times.hpp"
#include "model/prediction_mode.hpp"
#include "model/sequence/sequence.hpp"
#include "model/trunk/trunk_stream.hpp"

namespace k3 {

// One token of one sequence. Rows of a sequence stand in order; the first one's position is the sequence's committed().
struct Row {
  Sequence* sequence = nullptr;
  std::int32_t token = 0;
  bool wants_logits = false;
};

// Valid until the next step.
struct StepResult {
  // Of the rows that wanted them, in row order: [wanted, vocabulary].
  std::span<const float> logits;
  // [rows]: set where an expert the row needed could not be read. Only sequences without a failed row may be committed.
  std::span<const std::optional<Error>> row_errors;
};

// Everything a step needs, owned elsewhere (by the actor, a tool or a test) and outliving it.
struct ForwardContext {
  const checkpoint::Config* config = nullptr;
  const checkpoint::Weights* weights = nullptr;
  const kernels::Table* kernels = nullptr;
  ComputePool* pool = nullptr;
  experts::ExpertStream* experts = nullptr;
  // Where matrices come from that are not in memory, if there are any.
  const checkpoint::Checkpoint* checkpoint = nullptr;
  trunk::TrunkStreamOptions trunk;
  bool exact = false;         // products of float32 activations, to compare with
  float expert_top_p = 1.0F;  // 1: all chosen experts; less: the fewest whose weights sum to this share
  PredictionMode predict = PredictionMode::off;
  layers::StepTimes::Clock clock = std::chrono::steady_clock::now;
};

struct StepHooks {
  // Replaces the embedding rows: [rows, hidden]; empty: off.
  std::span<const float> inject;
  // Called with each row's chosen experts [rows] when a layer's router has spoken; may put others in their place, by ascending id.
  std::function<void(std::size_t layer, std::span<std::vector<layers::Choice>> chosen)> after_router;
  // Called with the running sum [rows, hidden] after each layer.
  std::function<void(std::size_t layer, std::span<const float> running_sum)> after_layer;
};

// Cancellation points passed in steps since the process began, by kind (those between tokens and in the queue are the actor's).
// Tests assert how many follow a stop request.
struct CancellationPoints {
  std::uint64_t layers = 0, experts = 0, blocks = 0;
};

class Forward {
 public:
  explicit Forward(const ForwardContext& context);
  ~Forward();

  // One step. Errors of the whole step: cancelled, and those of reading the trunk. On any error no sequence has changed. `rows`
  // must outlive the await.
  boost::asio::awaitable<Result<StepResult>> step(std::span<const Row> rows, std::stop_token stop, const StepHooks& hooks);
  // Called at each cancellation point, before the stop token is read; for tests that inject a stop at the n-th point.
  void on_point(std::function<void()> hook);
  const CancellationPoints& points() const;
  const layers::StepTimes& times() const;    // of all steps so far
  trunk::TrunkCounters trunk_reads() const;  // likewise
  const layers::PredictionMeter& predicted() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace k3
