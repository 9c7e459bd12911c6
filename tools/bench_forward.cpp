#include "tools/bench_forward.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <optional>
#include <string>

#include "model/experts/drive_meter.hpp"
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
  out.guesses = end.guesses - begin.guesses;
  out.guesses_used = end.guesses_used - begin.guesses_used;
  out.reading = end.reading - begin.reading;
  return out;
}

trunk::TrunkCounters since(const trunk::TrunkCounters& begin, const trunk::TrunkCounters& end) {
  return {end.reads - begin.reads, end.bytes - begin.bytes, end.misses - begin.misses, end.waiting - begin.waiting};
}

// Ids without meaning, the same in each run, that do not repeat soon.
std::vector<std::int32_t> made_up_ids(std::size_t count, std::size_t vocabulary) {
  std::vector<std::int32_t> ids(count);
  for (std::size_t i = 0; i < count; ++i) ids[i] = static_cast<std::int32_t>((11 + i * 7919) % vocabulary);
  return ids;
}

// What the layers of one step took, as the difference to what all steps before took.
layers::PredictionMeter since(const layers::PredictionMeter& begin, const layers::PredictionMeter& end) {
  return {end.chosen - begin.chosen, end.foreseen - begin.foreseen, end.repeated - begin.repeated};
}

class LayerLog {
 public:
  explicit LayerLog(const Forward& forward) : times_(forward.times()), before_(times_.layers()) {}
  void append_step(std::vector<layers::LayerTimes>& to) {
    const std::vector<layers::LayerTimes>& now = times_.layers();
    before_.resize(now.size());
    for (std::size_t i = 0; i < now.size(); ++i) {
      to.push_back({now[i].serial - before_[i].serial, now[i].overlapped - before_[i].overlapped,
                    now[i].waiting - before_[i].waiting, now[i].experts_read - before_[i].experts_read});
    }
    before_ = now;
  }

 private:
  const layers::StepTimes& times_;
  std::vector<layers::LayerTimes> before_;
};

struct Run {
  const LoadedModel& model;
  const ForwardPlan& plan;
  BenchProgress& progress;
  ForwardTimes times;
  std::int32_t likeliest = 0;
  LayerLog* log = nullptr;  // of what is measured
  StepHooks hooks;
};

// Token after token takes the next recorded one's choices.
void impose_routes(Run& run, std::size_t token) {
  if (run.plan.routes == nullptr) return;
  const checkpoint::Config& config = run.model.checkpoint.config();
  run.hooks.after_router = [&routes = *run.plan.routes, &config, token](std::size_t layer,
                                                                        std::span<std::vector<layers::Choice>> chosen) {
    impose(routes, token, layer - config.dense_layers, config.experts, chosen.front());
  };
}

// One step of one sequence; leaves the likeliest next token.
awaitable<Result<void>> step(Run& run, Forward& forward, Sequence& sequence, std::span<const std::int32_t> ids) {
  std::vector<Row> rows;
  for (const std::int32_t id : ids) rows.push_back({&sequence, id, false});
  rows.back().wants_logits = true;
  const std::stop_token never;
  const Result<StepResult> result = co_await forward.step(rows, never, run.hooks);
  if (result.has_error()) co_return result.error();
  for (const auto& error : result->row_errors) {
    if (error) co_return *error;
  }
  run.likeliest =
      static_cast<std::int32_t>(std::max_element(result->logits.begin(), result->logits.end()) - result->logits.begin());
  sequence.commit(ids);
  if (run.log != nullptr) run.log->append_step(run.times.layers);
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

// Tokens for some seconds, or until there are enough; then the drive alone for as long.
awaitable<Result<void>> decode_turn(Run& run, Forward& forward, Sequence& sequence, experts::ExpertStream& stream,
                                    experts::DriveMeter* reads) {
  const double turn_seconds = reads == nullptr ? 1 : 3;
  const experts::StreamCounters before = stream.counters();
  const double begin = seconds_now();
  do {
    const std::int32_t id = run.likeliest;
    impose_routes(run, run.times.ids.size() + 1);
    const Result<void> done = co_await step(run, forward, sequence, std::span(&id, 1));
    if (done.has_error()) co_return done.error();
    run.times.ids.push_back(id);
    run.progress.tell("decoding", fmt::format("{} of {} tokens", run.times.ids.size(), run.plan.decode));
  } while (run.times.ids.size() < run.plan.decode && seconds_now() - begin < turn_seconds);
  const double seconds = seconds_now() - begin;
  run.times.seconds += seconds;
  look_at_memory(run.times);
  if (run.plan.after_turn) run.plan.after_turn(*run.model.pool);
  const experts::StreamCounters counted = since(before, stream.counters());
  const double reading = std::chrono::duration<double>(counted.reading).count();
  if (reads == nullptr || reading <= 0) co_return Result<void>();
  run.times.drive.tokens.push_back(static_cast<double>(counted.bytes) / reading);
  const Result<double> plain = reads->run_experts(run.model.checkpoint.expert_bytes(), std::min(seconds, turn_seconds));
  if (plain.has_error()) co_return plain.error();
  run.times.drive.plain.push_back(*plain);
  co_return Result<void>();
}

awaitable<Result<void>> run_decode(Run& run, Forward& forward, Sequence& sequence, experts::ExpertStream& stream) {
  Result<void> done = co_await fetch_all(run, stream);
  if (done.has_value()) done = co_await run_prompt(run, forward, sequence);
  if (done.has_error()) co_return done;
  const std::int32_t first = run.likeliest;  // warms up, unmeasured
  impose_routes(run, 0);
  done = co_await step(run, forward, sequence, std::span(&first, 1));
  std::optional<experts::DriveMeter> reads;
  if (!run.times.all_resident) {
    auto opened = experts::DriveMeter::open(run.model.checkpoint.files());
    if (opened.has_error()) co_return opened.error();
    reads = std::move(opened).value();
  }
  experts::DriveMeter* const plain = reads ? &*reads : nullptr;
  const experts::StreamCounters before = stream.counters();
  const trunk::TrunkCounters trunk_before = forward.trunk_reads();
  const layers::PredictionMeter predicted_before = forward.predicted();
  LayerLog log(forward);
  run.log = &log;
  while (done.has_value() && run.times.ids.size() < run.plan.decode) {
    done = co_await decode_turn(run, forward, sequence, stream, plain);
  }
  run.times.experts = since(before, stream.counters());
  run.times.predicted = since(predicted_before, forward.predicted());
  run.times.trunk = since(trunk_before, forward.trunk_reads());
  co_return done;
}

// Once all experts are there a first prompt goes unmeasured: it only makes the memory of its activations. Where experts come from
// the drive, that is what counts, and nothing is read twice.
awaitable<Result<void>> run_prefill(Run& run, Forward& forward, Sequence& sequence, experts::ExpertStream& stream) {
  Result<void> done = co_await fetch_all(run, stream);
  if (done.has_value() && run.times.all_resident) {
    Sequence other(run.model.checkpoint.config(), run.model.latents);
    done = co_await run_prompt(run, forward, other);
  }
  if (done.has_error()) co_return done;
  const experts::StreamCounters before = stream.counters();
  const trunk::TrunkCounters trunk_before = forward.trunk_reads();
  const double begin = seconds_now();
  LayerLog log(forward);
  run.log = &log;
  done = co_await run_prompt(run, forward, sequence);
  run.times.seconds = seconds_now() - begin;
  run.times.experts = since(before, stream.counters());
  run.times.trunk = since(trunk_before, forward.trunk_reads());
  co_return done;
}

awaitable<Result<void>> run_measured(Run& run, experts::ExpertStream& stream) {
  run.progress.tell("taking memory", "for the experts");
  stream.await_memory();
  const ForwardContext context = run.model.forward_context(stream);
  Forward forward(context);
  Sequence sequence(run.model.checkpoint.config(), run.model.latents);
  if (run.plan.decode != 0) {
    const Result<void> decoded = co_await run_decode(run, forward, sequence, stream);
    co_return decoded;
  }
  const Result<void> prefilled = co_await run_prefill(run, forward, sequence, stream);
  co_return prefilled;
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
  Run run{model, plan, progress, {}, 0, nullptr, {}};
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
