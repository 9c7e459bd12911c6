// A step that was stopped never happened, wherever it was stopped; and it stops at once.
#include <cstring>

#include "tests/catch.hpp"
#include "tests/forward/fixture.hpp"
#include "tests/forward/golden.hpp"

using namespace k3;
using namespace k3::test;

namespace {

std::vector<Row> rows_of(Sequence& sequence, std::span<const std::int32_t> tokens) {
  std::vector<Row> rows;
  for (const auto id : tokens) rows.push_back({&sequence, id, true});
  return rows;
}

std::uint64_t total(const CancellationPoints& points) { return points.layers + points.experts + points.blocks; }

}  // namespace

TEST_CASE("stopped at any point, the sequence is as before the step") {
  const Golden want = golden();
  const std::span<const std::int32_t> tokens(want.tokens);
  // One slot: each expert runs alone. All resident: those of a layer run together. Between the two the drive would decide.
  const std::size_t slots = GENERATE(1U, 144U);
  RunnerOptions options{1, slots, "", false, {}};
  options.predict = PredictionMode::on;  // foreseeing has points of its own
  Runner runner(tiny(), options);
  auto fresh = runner.sequence();
  runner.feed(*fresh, tokens.first(10), 10);
  const auto expected = runner.feed(*fresh, tokens.subspan(10, 5), 5);

  auto sequence = runner.sequence();
  runner.feed(*sequence, tokens.first(10), 10);
  const auto doomed = rows_of(*sequence, tokens.subspan(20, 3));
  REQUIRE(runner.step(doomed).has_value());  // its experts are in memory from here on, if there is room
  const auto before = total(runner.forward().points());
  std::uint64_t points = 0;
  runner.forward().on_point([&points] { ++points; });
  REQUIRE(runner.step(doomed).has_value());
  const std::uint64_t all = points;
  REQUIRE(total(runner.forward().points()) - before == all);
  REQUIRE(all > 13 * 8);

  // Every third: foreseeing has the fewest points, one for each of the three rows and one more.
  for (std::uint64_t n = 1; n <= all; n += 3) {
    CAPTURE(slots, n);
    std::stop_source stop;
    points = 0;
    runner.forward().on_point([&] {
      if (++points == n) stop.request_stop();
    });
    const auto result = runner.step(doomed, {}, stop.get_token());
    REQUIRE(result.has_error());
    CHECK(result.error().code == ErrorCode::cancelled);
    CHECK(points == n);  // not one more point after the stop: nothing was begun
    CHECK(sequence->committed() == 10);
  }
  runner.forward().on_point({});
  const auto got = runner.feed(*sequence, tokens.subspan(10, 5), 5);
  CHECK(std::memcmp(got.data(), expected.data(), expected.size() * sizeof(float)) == 0);
}

TEST_CASE("a finished step that is not committed leaves no trace either") {
  const Golden want = golden();
  const std::span<const std::int32_t> tokens(want.tokens);
  Runner runner(tiny());
  auto fresh = runner.sequence(), drafted = runner.sequence();
  const auto expected = runner.feed(*fresh, tokens.first(8), 3);
  runner.feed(*drafted, tokens.first(3), 3);
  REQUIRE(runner.step(rows_of(*drafted, tokens.subspan(30, 9))).has_value());
  const auto rest = runner.feed(*drafted, tokens.subspan(3, 5), 3);
  const std::size_t vocabulary = tiny().checkpoint.config().vocabulary;
  CHECK(std::memcmp(rest.data(), &expected[3 * vocabulary], rest.size() * sizeof(float)) == 0);
}
