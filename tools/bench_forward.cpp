#include "tools/bench_forward.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <string>

#include "model/run_with_experts.hpp"
#include "tools/bench_machine.hpp"

namespace k3::cli {
namespace {

using boost::asio::awaitable;

std::uint64_t own_memory() {
  std::ifstream status("/proc/self/status");
  std::uint64_t kilobytes = 0;
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("RssAnon:") || line.starts_with("RssShmem:")) kilobytes += std::stoull(line.substr(line.find(':') + 1));
  }
  return kilobytes * 1024;
}

void look_at_memory(ForwardTimes& times) { times.peak_rss = std::max(times.peak_rss, own_memory()); }

experts::StreamCounters since(const experts::StreamCounters& begin, const experts::StreamCounters& end) {
  experts::StreamCounters out;
  out.reads = end.reads - begin.reads;
  out.bytes = end.bytes - begin.bytes;
  out.hits = end.hits - begin.hits;
  out.misses = end.misses - begin.misses;
  return out;
}

// Ids without meaning, the same in each run, that do not repeat soon.
std::vector<std::int32_t> made_up_ids(std::size_t count, std::size_t vocabulary) {
  std::vector<std::int32_t> ids(count);
  for (std::size_t i = 0; i < count; ++i) ids[i] = static_cast<std::int32_t>((11 + i * 7919) % vocabulary);
  return ids;
}

struct Run {
  const LoadedModel& model;
  const ForwardPlan& plan;
  BenchProgress& progress;
  ForwardTimes times;
  std::int32_t likeliest = 0;
};

// One step of one sequence; leaves the likeliest next token.
awaitable<Result<void>> step(Run& run, Forward& forward, Sequence& sequence, std::span<const std::int32_t> ids) {
  std::vector<Row> rows;
  for (const std::int32_t id : ids) rows.push_back({&sequence, id, false});
  rows.back().wants_logits = true;
  const StepHooks hooks;
  const std::stop_token never;
  const Result<StepResult> result = co_await forward.step(rows, never, hooks);
  if (result.has_error()) co_return result.error();
  for (const auto& error : result->row_errors) {
    if (error) co_return *error;
  }
  run.likeliest =
      static_cast<std::int32_t>(std::max_element(result->logits.begin(), result->logits.end()) - result->logits.begin());
  sequence.commit(ids);
  co_return Result<void>();
}

awaitable<Result<void>> run_prompt(Run& run, Forward& forward, Sequence& sequence) {
  const std::vector<std::int32_t> ids = made_up_ids(run.plan.prompt, run.model.info.vocabulary);
  for (std::size_t first = 0; first < ids.size(); first += run.model.chunk) {
    run.progress.tell("prompt", fmt::format("{} of {} tokens", first, ids.size()));
    const auto chunk = std::span(ids).subspan(first, std::min(run.model.chunk, ids.size() - first));
    const Result<void> done = co_await step(run, forward, sequence, chunk);
    if (done.has_error()) co_return done.error();
    look_at_memory(run.times);
  }
  co_return Result<void>();
}

// Where all experts can stay, a token is measured with all of them there, as it will be for most of a server's life.
awaitable<Result<void>> fetch_all(Run& run, experts::ExpertStream& stream) {
  const checkpoint::Config& config = run.model.checkpoint.config();
  const std::size_t layers = run.model.weights.layers.size();
  if (stream.slots() < (config.layers - config.dense_layers) * config.experts) co_return Result<void>();
  const std::stop_token never;
  for (std::size_t layer = config.dense_layers; layer < layers; ++layer) {
    run.progress.tell("reading all experts", fmt::format("layer {} of {}", layer, layers));
    std::vector<experts::ExpertKey> keys;
    for (std::size_t expert = 0; expert < config.experts; ++expert) {
      keys.push_back({static_cast<std::uint32_t>(layer), static_cast<std::uint32_t>(expert)});
    }
    stream.request(keys);
    for (const experts::ExpertKey& key : keys) {
      const Result<experts::Lease> lease = co_await stream.acquire(key, never);
      if (lease.has_error()) co_return lease.error();
    }
  }
  run.times.all_resident = true;
  co_return Result<void>();
}

awaitable<Result<void>> run_decode(Run& run, Forward& forward, Sequence& sequence, experts::ExpertStream& stream) {
  Result<void> done = co_await fetch_all(run, stream);
  if (done.has_value()) done = co_await run_prompt(run, forward, sequence);
  experts::StreamCounters before;
  double begin = 0;
  for (std::size_t i = 0; done.has_value() && i <= run.plan.decode; ++i) {
    const std::int32_t id = run.likeliest;
    done = co_await step(run, forward, sequence, std::span(&id, 1));
    if (i == 0) {  // the warm-up ends here
      before = stream.counters();
      begin = seconds_now();
    } else {
      run.times.ids.push_back(id);
      run.progress.tell("decoding", fmt::format("{} of {} tokens", i, run.plan.decode));
    }
  }
  run.times.seconds = seconds_now() - begin;
  run.times.experts = since(before, stream.counters());
  look_at_memory(run.times);
  co_return done;
}

awaitable<Result<void>> run_measured(Run& run, experts::ExpertStream& stream) {
  const ForwardContext context = run.model.forward_context(stream);
  Forward forward(context);
  Sequence sequence(run.model.checkpoint.config(), run.model.latents);
  if (run.plan.decode != 0) {
    const Result<void> decoded = co_await run_decode(run, forward, sequence, stream);
    co_return decoded;
  }
  const double begin = seconds_now();
  const Result<void> done = co_await run_prompt(run, forward, sequence);
  run.times.seconds = seconds_now() - begin;
  run.times.experts = stream.counters();
  co_return done;
}

Result<void> check(const LoadedModel& model, const ForwardPlan& plan) {
  const std::size_t tokens = plan.prompt + (plan.decode == 0 ? 0 : plan.decode + 1);
  if (tokens <= model.info.context_limit) return {};
  Error error = fail(ErrorCode::invalid_argument, "more tokens than the model's context holds");
  error.expected = "at most " + std::to_string(model.info.context_limit);
  error.got = std::to_string(tokens);
  return error;
}

double weights_in(const checkpoint::Matrix& matrix) {
  return static_cast<double>(matrix.rows) * static_cast<double>(matrix.columns);
}

template <class... Matrices>
double weights_in(const checkpoint::Matrix& first, const Matrices&... rest) {
  return weights_in(first) + weights_in(rest...);
}

double weights_in(const checkpoint::KdaWeights& w) { return weights_in(w.q, w.k, w.v, w.g, w.o, w.f_a, w.f_b, w.b); }
double weights_in(const checkpoint::MlaWeights& w) { return weights_in(w.q_a, w.q_b, w.kv_a, w.g, w.o, w.kv_b); }
double weights_in(const checkpoint::MlpWeights& w) { return weights_in(w.gate, w.up, w.down); }
double weights_in(const checkpoint::MoeWeights& w) { return weights_in(w.router, w.down, w.up) + weights_in(w.shared); }

}  // namespace

Result<ForwardTimes> time_forward(const LoadedModel& model, const ForwardPlan& plan, BenchProgress& progress) {
  if (auto checked = check(model, plan); checked.has_error()) return checked.error();
  Run run{model, plan, progress, {}, 0};
  const auto task = [&run](experts::ExpertStream& experts) { return run_measured(run, experts); };
  const Result<void> outcome = run_with_experts(model, task);
  if (outcome.has_error()) return outcome.error();
  return std::move(run.times);
}

TokenCost cost_of_a_token(const LoadedModel& model) {
  const checkpoint::Config& config = model.checkpoint.config();
  const double embedding = weights_in(model.weights.embedding) * sizeof(std::uint16_t);
  TokenCost cost;
  cost.trunk_bytes = static_cast<double>(model.weights.bytes) - embedding;
  for (const checkpoint::LayerWeights& layer : model.weights.layers) {
    cost.trunk_weights += std::visit([](const auto& w) { return weights_in(w); }, layer.attention);
    cost.trunk_weights += std::visit([](const auto& w) { return weights_in(w); }, layer.mlp);
    if (!std::holds_alternative<checkpoint::MoeWeights>(layer.mlp)) continue;
    cost.expert_weights += 3.0 * static_cast<double>(config.experts_per_token * config.expert_inner * config.latent);
  }
  return cost;
}

}  // namespace k3::cli
