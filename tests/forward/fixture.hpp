// A model and a synchronous way to run steps on it.
#pragma once

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "model/forward.hpp"
#include "tests/passing_stream.hpp"

namespace k3::test {

struct Loaded {
  checkpoint::Checkpoint checkpoint;
  checkpoint::Weights weights;
};

inline Loaded load(const std::filesystem::path& directory, const checkpoint::TrunkPrecision& precision = {},
                   const checkpoint::Residency& residency = {}) {
  auto checkpoint = checkpoint::Checkpoint::open(directory).value();
  auto weights = checkpoint::load_weights(checkpoint, 1, 0, precision, {}, residency).value();
  return {std::move(checkpoint), std::move(weights)};
}

inline const Loaded& tiny() {
  static const Loaded loaded = load(K3_TEST_DATA "/tiny/model");
  return loaded;
}

// The same, of whose streamable matrices so many bytes stay in memory.
inline Loaded tiny_with(std::uint64_t resident) {
  return load(K3_TEST_DATA "/tiny/model", {}, {.whole = false, .streamable = resident});
}

// The same, its trunk rounded to this when loaded.
inline const Loaded& tiny_in(checkpoint::Precision precision) {
  static std::map<checkpoint::Precision, Loaded> loaded;
  const auto at = loaded.find(precision);
  if (at != loaded.end()) return at->second;
  return loaded.emplace(precision, load(K3_TEST_DATA "/tiny/model", {precision, precision, precision})).first->second;
}

struct RunnerOptions {
  unsigned threads = 1;
  std::size_t slots = 4;
  std::string isa;
  bool exact = false;
  std::optional<experts::ExpertKey> lost;  // reading this expert fails
  LatentFormat latents = LatentFormat::float32;
  PredictionMode predict = PredictionMode::off;
  layers::StepTimes::Clock clock = std::chrono::steady_clock::now;
};

// One expert cannot be read.
class LossyStream final : public PassingStream {
 public:
  LossyStream(std::unique_ptr<ExpertStream> inner, experts::ExpertKey lost) : PassingStream(std::move(inner)), lost_(lost) {}
  boost::asio::awaitable<Result<experts::Lease>> acquire(experts::ExpertKey key, std::stop_token stop) override {
    if (key == lost_) co_return fail(ErrorCode::io, "the drive has lost this expert");
    Result<experts::Lease> lease = co_await inner().acquire(key, stop);
    co_return lease;
  }

 private:
  const experts::ExpertKey lost_;
};

class Runner {
 public:
  explicit Runner(const Loaded& loaded, const RunnerOptions& options = {})
      : loaded_(loaded), latents_(options.latents), pool_(options.threads) {
    experts::StreamOptions stream_options;
    // Room for the window's alignment beside the bytes.
    stream_options.budget_bytes = options.slots * (loaded.checkpoint.expert_bytes() + 8192);
    stream_ = experts::ExpertStream::open(loaded.checkpoint, context_, stream_options).value();
    if (options.lost) stream_ = std::make_unique<LossyStream>(std::move(stream_), *options.lost);
    ForwardContext context;
    context.config = &loaded.checkpoint.config();
    context.weights = &loaded.weights;
    context.kernels = kernels::select(options.isa);
    context.pool = &pool_;
    context.experts = stream_.get();
    context.checkpoint = &loaded.checkpoint;
    context.trunk.window_bytes = 1;  // two blocks
    context.exact = options.exact;
    context.predict = options.predict;
    context.clock = options.clock;
    forward_.emplace(context);
  }

  Forward& forward() { return *forward_; }
  experts::ExpertStream& stream() { return *stream_; }
  std::unique_ptr<Sequence> sequence() const { return std::make_unique<Sequence>(loaded_.checkpoint.config(), latents_); }

  Result<StepResult> step(std::span<const Row> rows, const StepHooks& hooks = {}, std::stop_token stop = {}) {
    std::optional<Result<StepResult>> result;
    const auto task = [&]() -> boost::asio::awaitable<void> { result.emplace(co_await forward_->step(rows, stop, hooks)); };
    boost::asio::co_spawn(context_, task, boost::asio::detached);
    context_.restart();
    while (!result) context_.run_one();
    return std::move(*result);
  }

  // Runs a coroutine to its end.
  template <class Task>
  void run(const Task& task) {
    bool done = false;
    boost::asio::co_spawn(context_, task, [&done](std::exception_ptr) { done = true; });
    context_.restart();
    while (!done) context_.run_one();
  }

  // Appends `ids` to `sequence` in chunks and commits; logits of every row: [ids, vocabulary].
  std::vector<float> feed(Sequence& sequence, std::span<const std::int32_t> ids, std::size_t chunk,
                          std::vector<float>* hidden = nullptr) {
    std::vector<float> logits;
    const std::size_t width = loaded_.checkpoint.config().hidden;
    for (std::size_t start = 0; start < ids.size(); start += chunk) {
      const auto part = ids.subspan(start, std::min(chunk, ids.size() - start));
      std::vector<Row> rows;
      for (const auto id : part) rows.push_back({&sequence, id, true});
      StepHooks hooks;
      if (hidden != nullptr) {
        hidden->resize(loaded_.weights.layers.size() * ids.size() * width);
        hooks.after_layer = [&](std::size_t layer, std::span<const float> sum) {
          std::copy(sum.begin(), sum.end(), hidden->begin() + static_cast<std::ptrdiff_t>((layer * ids.size() + start) * width));
        };
      }
      const auto result = step(rows, hooks).value();
      logits.insert(logits.end(), result.logits.begin(), result.logits.end());
      sequence.commit(part);
    }
    return logits;
  }

 private:
  const Loaded& loaded_;
  const LatentFormat latents_;
  ComputePool pool_;
  boost::asio::io_context context_{1};
  std::unique_ptr<experts::ExpertStream> stream_;
  std::optional<Forward> forward_;
};

}  // namespace k3::test
