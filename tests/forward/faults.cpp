// An expert that cannot be read fails the rows that chose it, and nobody else.
#include <cstring>

#include "tests/catch.hpp"
#include "tests/forward/fixture.hpp"
#include "tests/forward/golden.hpp"

using namespace k3;
using namespace k3::test;

TEST_CASE("a lost expert fails the sequences that needed it; the others' bits and states are as ever") {
  const Golden want = golden();
  const std::span<const std::int32_t> tokens(want.tokens);
  Runner healthy(tiny());
  const std::size_t vocabulary = tiny().checkpoint.config().vocabulary;

  std::size_t failed = 0, spared = 0;
  for (std::uint32_t expert = 0; expert < tiny().checkpoint.config().experts; ++expert) {
    CAPTURE(expert);
    RunnerOptions options;
    options.lost = experts::ExpertKey{5, expert};
    Runner runner(tiny(), options);
    auto a = runner.sequence(), b = runner.sequence();
    const std::vector<Row> rows{{a.get(), tokens[0], true}, {b.get(), tokens[1], true}};
    const auto result = runner.step(rows).value();
    for (std::size_t row = 0; row < 2; ++row) {
      const auto& error = result.row_errors[row];
      if (error) {
        ++failed;
        CHECK(error->code == ErrorCode::io);
        continue;
      }
      ++spared;
      Sequence& sequence = row == 0 ? *a : *b;
      auto fresh = healthy.sequence();
      const auto expected = healthy.feed(*fresh, tokens.subspan(row, 1), 1);
      CHECK(std::memcmp(&result.logits[row * vocabulary], expected.data(), vocabulary * sizeof(float)) == 0);
      // Only a sequence without a failed row commits; it goes on as if it had been alone.
      sequence.commit(tokens.subspan(row, 1));
      options.lost.reset();
      Runner repaired(tiny(), options);
      const auto next = repaired.feed(sequence, tokens.subspan(7, 2), 2);
      const auto expected_next = healthy.feed(*fresh, tokens.subspan(7, 2), 2);
      CHECK(std::memcmp(next.data(), expected_next.data(), next.size() * sizeof(float)) == 0);
    }
  }
  // Each of the two rows chose four of the twelve.
  CHECK(failed == 8);
  CHECK(spared == 16);
}
