// Runs given ids through the model, outside the actor: for `k3 logits`, traces and tests.
#pragma once

#include <span>
#include <stop_token>
#include <vector>

#include "model/loaded_model.hpp"
#include "model/routes.hpp"

namespace k3 {

struct RunIdsOptions {
  std::size_t chunk = 0;          // rows per step; 0: the model's
  std::span<const float> inject;  // [tokens, hidden], replaces the embedding rows; empty: off
  bool want_hidden = false;
  bool want_routes = false;
  std::stop_token stop;
};

struct RunIdsResult {
  std::vector<float> logits;  // [tokens, vocabulary]
  std::vector<float> hidden;  // [layers, tokens, hidden]: the running sum after each layer; empty unless wanted
  Routes routes;              // likewise
};

// Opens an ExpertStream of its own on a private io_context, and drains it before returning. Call from one thread at a time.
Result<RunIdsResult> run_ids(const LoadedModel& model, std::span<const std::int32_t> ids, const RunIdsOptions& options);

}  // namespace k3
