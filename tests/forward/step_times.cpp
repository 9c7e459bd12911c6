#include "model/layers/step_times.hpp"

#include "tests/catch.hpp"
#include "tests/forward/fixture.hpp"
#include "tests/forward/golden.hpp"

using namespace k3;
using layers::StepTimes;
using std::chrono::milliseconds;

namespace {
std::chrono::steady_clock::time_point now;
std::chrono::steady_clock::time_point fixed_clock() { return now; }
std::chrono::steady_clock::time_point ticking_clock() { return now += milliseconds(1); }
}  // namespace

TEST_CASE("time belongs to the phase and the layer it passed in") {
  StepTimes times(fixed_clock);
  times.begin(2);
  now += milliseconds(1);
  times.enter(StepTimes::Phase::overlapped);
  now += milliseconds(2);
  times.enter(StepTimes::Phase::waiting);
  now += milliseconds(4);
  times.enter(StepTimes::Phase::overlapped);
  now += milliseconds(8);
  times.read(3);
  times.layer(1);
  now += milliseconds(16);
  times.end();
  now += milliseconds(32);  // nobody's
  times.begin(2);
  now += milliseconds(64);
  times.end();
  REQUIRE(times.layers().size() == 2);
  CHECK(times.layers()[0].serial == milliseconds(65));
  CHECK(times.layers()[0].overlapped == milliseconds(10));
  CHECK(times.layers()[0].waiting == milliseconds(4));
  CHECK(times.layers()[0].experts_read == 3);
  CHECK(times.layers()[1].serial == milliseconds(16));
}

TEST_CASE("a step accounts for all its time, and for the experts it had to read") {
  const test::Golden want = test::golden();
  test::RunnerOptions options;
  options.slots = 144;  // all of them
  options.clock = ticking_clock;
  test::Runner runner(test::tiny(), options);
  auto sequence = runner.sequence();
  const auto begin = now;
  runner.feed(*sequence, std::span(want.tokens).first(1), 1);
  layers::LayerTimes sum;
  for (const auto& layer : runner.forward().times().layers()) sum += layer;
  CHECK(sum.serial + sum.overlapped + sum.waiting == now - begin - milliseconds(1));  // all but the step's first look at the clock
  CHECK(sum.experts_read == runner.stream().counters().misses);
  CHECK(sum.experts_read > 0);
  const auto& config = test::tiny().checkpoint.config();
  for (std::size_t i = 0; i < config.dense_layers; ++i) CHECK(runner.forward().times().layers()[i].overlapped.count() == 0);
}
