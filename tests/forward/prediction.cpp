// Guessing the next layer's experts changes when they are read, and nothing else.
#include <cstring>

#include "tests/catch.hpp"
#include "tests/forward/fixture.hpp"
#include "tests/forward/golden.hpp"

using namespace k3;
using namespace k3::test;

TEST_CASE("the bits are the same with guesses, without and with a meter, whatever the number of slots") {
  const Golden want = golden();
  const std::span<const std::int32_t> tokens = std::span<const std::int32_t>(want.tokens).first(8);
  Runner plain(tiny());
  auto sequence = plain.sequence();
  const std::vector<float> expected = plain.feed(*sequence, tokens, 1);
  for (const PredictionMode mode : {PredictionMode::metered, PredictionMode::on}) {
    for (const std::size_t slots : {1U, 2U, 7U, 30U}) {
      CAPTURE(slots);
      RunnerOptions options;
      options.predict = mode;
      options.slots = slots;
      Runner runner(tiny(), options);
      auto other = runner.sequence();
      const std::vector<float> got = runner.feed(*other, tokens, 1);
      CHECK(std::memcmp(got.data(), expected.data(), expected.size() * sizeof(float)) == 0);
      const experts::StreamCounters counters = runner.stream().counters();
      CHECK(counters.guesses_used <= counters.guesses);
      CHECK((counters.guesses > 0) == (mode == PredictionMode::on));
    }
  }
}

TEST_CASE("the meter counts what a layer chose, once there was a guess at it") {
  const Golden want = golden();
  const checkpoint::Config& config = tiny().checkpoint.config();
  RunnerOptions options;
  options.predict = PredictionMode::metered;
  Runner runner(tiny(), options);
  auto sequence = runner.sequence();
  const std::span<const std::int32_t> tokens = std::span<const std::int32_t>(want.tokens).first(6);
  runner.feed(*sequence, tokens, 1);
  const layers::PredictionMeter& meter = runner.forward().predicted();
  // The first layer that has experts comes after none that could have guessed.
  const std::size_t guessed_layers = config.layers - config.dense_layers - 1;
  CHECK(meter.chosen == tokens.size() * guessed_layers * config.experts_per_token);
  CHECK(meter.foreseen > 0);
  CHECK(meter.foreseen <= meter.chosen);
  CHECK(meter.repeated <= meter.chosen - guessed_layers * config.experts_per_token);
}

TEST_CASE("a long prompt is not guessed at, nor where every expert has its place") {
  const Golden want = golden();
  const std::span<const std::int32_t> tokens = std::span<const std::int32_t>(want.tokens).first(10);
  RunnerOptions options;
  options.predict = PredictionMode::on;
  Runner few_slots(tiny(), options);
  auto sequence = few_slots.sequence();
  few_slots.feed(*sequence, tokens, 5);
  CHECK(few_slots.stream().counters().guesses == 0);
  options.slots = 1000;
  Runner all_slots(tiny(), options);
  auto other = all_slots.sequence();
  all_slots.feed(*other, tokens, 1);
  CHECK(all_slots.stream().counters().guesses == 0);
  CHECK(all_slots.forward().predicted().chosen == 0);
}
