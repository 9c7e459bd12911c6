// How often a prompt makes the drive read an expert.
#include "tests/catch.hpp"
#include "tests/forward/fixture.hpp"
#include "tests/forward/golden.hpp"

using namespace k3;
using namespace k3::test;

TEST_CASE("a prompt of 512 tokens reads an expert once a chunk at most, even with one slot") {
  const Golden want = golden();
  std::vector<std::int32_t> prompt;
  while (prompt.size() < 512) prompt.push_back(want.tokens[prompt.size() * 7 % want.tokens.size()]);
  const checkpoint::Config& config = tiny().checkpoint.config();
  const std::size_t slots = GENERATE(1U, 5U), chunk = GENERATE(512U, 200U);
  CAPTURE(slots, chunk);
  RunnerOptions options;
  options.slots = slots;
  Runner runner(tiny(), options);
  auto sequence = runner.sequence();
  std::vector<layers::LayerTimes> before(config.layers);
  experts::StreamCounters last;
  for (std::size_t start = 0; start < prompt.size(); start += chunk) {
    const auto part = std::span(prompt).subspan(start, std::min(chunk, prompt.size() - start));
    runner.feed(*sequence, part, chunk);
    const experts::StreamCounters now = runner.stream().counters();
    // Nothing was read that was not used: what the drive gave in this chunk is what layers took that had not been in memory.
    CHECK(now.reads - last.reads == now.misses - last.misses);
    last = now;
    const auto& times = runner.forward().times().layers();
    for (std::size_t layer = 0; layer < config.layers; ++layer) {
      const std::uint64_t read = times[layer].experts_read - before[layer].experts_read;
      CHECK(read <= config.experts);
      // So many rows want nearly all of a layer's experts, so the bound means something.
      if (layer >= config.dense_layers) CHECK(read > config.experts / 2);
    }
    before = times;
  }
}
