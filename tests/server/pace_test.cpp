// Estimates: what prompts of one length say of another.
#include "server/pace.hpp"

#include <cmath>

#include "tests/catch.hpp"

using Catch::Detail::Approx;
using k3::server::Pace;
using k3::server::PromptPace;

namespace {

constexpr std::size_t rows = 512;

std::chrono::steady_clock::duration lasting(double seconds) {
  return std::chrono::duration_cast<std::chrono::steady_clock::duration>(std::chrono::duration<double>(seconds));
}

// As streaming goes: a step reads the experts that any of its tokens chose, 4 of 64 each, and computes for each token.
double step_time(double tokens) { return 0.2 + 3 * (1 - std::pow(1 - 4.0 / 64, tokens)) + 0.004 * tokens; }

double prompt_time(std::size_t tokens) {
  const std::size_t rest = tokens % rows;
  return static_cast<double>(tokens / rows) * step_time(rows) + (rest > 0 ? step_time(static_cast<double>(rest)) : 0);
}

}  // namespace

TEST_CASE("pace: nothing seen, nothing told") {
  CHECK_FALSE(Pace(10).seconds_each());
  CHECK_FALSE(PromptPace().seconds(7, rows, std::nullopt));
  CHECK(PromptPace().seconds(0, rows, std::nullopt) == 0.0);
  CHECK(PromptPace().seconds(7, 1, 2.0).value() == Approx(14));
}

TEST_CASE("pace: of late counts") {
  Pace pace(10);
  pace.add(1000, lasting(1000));
  pace.add(100, lasting(200));
  CHECK(*pace.seconds_each() == Approx(2).epsilon(0.01));
  PromptPace prompts;
  for (int i = 0; i < 20; ++i) prompts.add(100, rows, lasting(10));
  for (int i = 0; i < 20; ++i) prompts.add(100, rows, lasting(30));
  CHECK(*prompts.seconds(100, rows, std::nullopt) == Approx(30).epsilon(0.01));
}

TEST_CASE("pace: steps that share their reads are foreseen from a few others") {
  PromptPace prompts;
  for (const std::size_t seen : {20, 90, 400, 1200}) prompts.add(seen, rows, lasting(prompt_time(seen)));
  for (std::size_t tokens = 1; tokens <= 5000; tokens += 7) {
    const auto told = prompts.seconds(tokens, rows, step_time(1));
    REQUIRE(told);
    CAPTURE(tokens, *told, prompt_time(tokens));
    CHECK(std::abs(*told / prompt_time(tokens) - 1) < 0.2);
  }
}

TEST_CASE("pace: more tokens never take less") {
  PromptPace prompts;
  // Out of order, as a drive that warms up would have it.
  prompts.add(10, rows, lasting(3));
  prompts.add(300, rows, lasting(4));
  double before = 0;
  for (std::size_t tokens = 1; tokens < 2000; ++tokens) {
    const double told = *prompts.seconds(tokens, rows, 0.5);
    REQUIRE(told >= before);
    before = told;
  }
}

TEST_CASE("pace: reports that span several steps") {
  PromptPace prompts;
  prompts.add(4 * rows, rows, lasting(40));
  CHECK(*prompts.seconds(rows, rows, std::nullopt) == Approx(10));
  CHECK(*prompts.seconds(40 * rows, rows, std::nullopt) == Approx(400));
  prompts.add(0, rows, lasting(5));
  prompts.add(rows, rows, lasting(0));
  CHECK(*prompts.seconds(rows, rows, std::nullopt) == Approx(10));
}
