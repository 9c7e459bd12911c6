#include "model/run_ids.hpp"

#include <algorithm>

#include "model/run_with_experts.hpp"

namespace k3 {

namespace {

using boost::asio::awaitable;

struct Run {
  const LoadedModel& model;
  std::span<const std::int32_t> ids;
  const RunIdsOptions& options;
  RunIdsResult result;
};

Result<void> check(const Run& run) {
  const checkpoint::Config& config = run.model.checkpoint.config();
  const auto limit = static_cast<std::int32_t>(config.vocabulary);
  if (run.ids.empty()) return fail(ErrorCode::invalid_argument, "there are no token ids to run");
  if (run.ids.size() > run.model.info.context_limit) {
    Error error = fail(ErrorCode::invalid_argument, "more token ids than a conversation may have");
    error.expected = "at most " + std::to_string(run.model.info.context_limit);
    error.got = std::to_string(run.ids.size());
    return error;
  }
  for (const std::int32_t id : run.ids) {
    if (id >= 0 && id < limit) continue;
    Error error = fail(ErrorCode::invalid_argument, "token id outside the vocabulary");
    error.expected = "0 to " + std::to_string(limit - 1);
    error.got = std::to_string(id);
    return error;
  }
  if (!run.options.inject.empty() && run.options.inject.size() != run.ids.size() * config.hidden) {
    Error error = fail(ErrorCode::invalid_argument, "the injected rows do not have the size of the tokens");
    error.expected = std::to_string(run.ids.size()) + " x " + std::to_string(config.hidden) + " floats";
    error.got = std::to_string(run.options.inject.size());
    return error;
  }
  if (run.options.want_routes && run.model.expert_top_p < 1)
    return fail(ErrorCode::invalid_argument, "expert choices can be recorded only whole: without --expert-top-p");
  return {};
}

void prepare(Run& run) {
  const checkpoint::Config& config = run.model.checkpoint.config();
  const std::size_t layers = run.model.weights.layers.size(), tokens = run.ids.size();
  if (run.options.want_hidden) run.result.hidden.resize(layers * tokens * config.hidden);
  if (!run.options.want_routes) return;
  Routes& routes = run.result.routes;
  routes.layers = layers - std::min(layers, config.dense_layers);
  routes.per_token = config.experts_per_token;
  routes.ids.resize(tokens * routes.layers * routes.per_token);
}

// One chunk [first, first + count): logits and hidden rows go to their places in the result.
awaitable<Result<void>> run_chunk(Run& run, Forward& forward, Sequence& sequence, std::size_t first, std::size_t count) {
  const std::size_t hidden = run.model.checkpoint.config().hidden;
  const std::size_t tokens = run.ids.size();
  std::vector<Row> rows;
  for (std::size_t i = first; i < first + count; ++i) rows.push_back({&sequence, run.ids[i], true});
  StepHooks hooks;
  if (!run.options.inject.empty()) hooks.inject = run.options.inject.subspan(first * hidden, count * hidden);
  if (run.options.want_hidden) {
    hooks.after_layer = [&run, first, hidden, tokens](std::size_t layer, std::span<const float> sum) {
      std::copy(sum.begin(), sum.end(), run.result.hidden.begin() + static_cast<std::ptrdiff_t>((layer * tokens + first) * hidden));
    };
  }
  if (run.options.want_routes) {
    hooks.after_router = [&run, first](std::size_t layer, std::span<std::vector<layers::Choice>> chosen) {
      const std::size_t index = layer - run.model.checkpoint.config().dense_layers;
      for (std::size_t row = 0; row < chosen.size(); ++row) record(chosen[row], first + row, index, run.result.routes);
    };
  }
  const Result<StepResult> step = co_await forward.step(rows, run.options.stop, hooks);
  if (step.has_error()) co_return step.error();
  for (const auto& error : step->row_errors) {
    if (error) co_return *error;
  }
  run.result.logits.insert(run.result.logits.end(), step->logits.begin(), step->logits.end());
  sequence.commit(run.ids.subspan(first, count));
  co_return Result<void>();
}

awaitable<Result<void>> run_chunks(Run& run, experts::ExpertStream& experts) {
  const ForwardContext forward_context = run.model.forward_context(experts);
  Forward forward(forward_context);
  Sequence sequence(run.model.checkpoint.config(), run.model.latents);
  const std::size_t chunk = run.options.chunk == 0 ? run.model.chunk : run.options.chunk;
  Result<void> outcome;
  for (std::size_t first = 0; first < run.ids.size() && outcome.has_value(); first += chunk) {
    const std::size_t count = std::min(chunk, run.ids.size() - first);
    outcome = co_await run_chunk(run, forward, sequence, first, count);
  }
  co_return outcome;
}

}  // namespace

Result<RunIdsResult> run_ids(const LoadedModel& model, std::span<const std::int32_t> ids, const RunIdsOptions& options) {
  Run run{model, ids, options, {}};
  if (const auto checked = check(run); checked.has_error()) return checked.error();
  prepare(run);
  const auto task = [&run](experts::ExpertStream& experts) { return run_chunks(run, experts); };
  const Result<void> outcome = run_with_experts(model, task);
  if (outcome.has_error()) return outcome.error();
  return std::move(run.result);
}

}  // namespace k3
