// The stream over a disk that works: order, wishes, limits.
#include "tests/experts/bench.hpp"

namespace k3::experts::test {

TEST_CASE("every expert arrives whole, wherever its tensors lie, with one slot or many") {
  const auto placement = GENERATE(Placement::together, Placement::scattered, Placement::two_files);
  const std::size_t slots = GENERATE(1U, 3U, 8U);
  Bench bench(slots, placement);
  for (int round = 0; round < 2; ++round) {
    for (std::uint32_t layer = 1; layer <= 2; ++layer) {
      std::vector<ExpertKey> keys;
      for (std::uint32_t expert = 0; expert < 4; ++expert) keys.push_back({layer, expert});
      bench.stream->request(keys);
      for (const ExpertKey key : keys) CHECK(bench.good(key));
    }
  }
  const StreamCounters counters = bench.stream->counters();
  CHECK(counters.hits + counters.misses == 16);
  CHECK(counters.errors == 0);
  if (slots == 8) CHECK(counters.misses == 8);
}

TEST_CASE("completions out of order wait in their slots") {
  Bench bench(4);
  bench.disk->held = true;
  const std::vector<ExpertKey> keys{kA, kB, kC};
  bench.stream->request(keys);
  REQUIRE(bench.disk->waiting() == 3);
  Pending a, b;
  bench.begin(kA, a);
  bench.disk->finish(2);
  bench.disk->finish(1);
  settle(bench.context);
  CHECK_FALSE(a.result.has_value());
  bench.begin(kB, b);
  REQUIRE(b.ok());
  CHECK(bench.world.holds((*b.result)->bytes(), kB));
  bench.disk->finish(0);
  settle(bench.context);
  REQUIRE(a.ok());
  CHECK(bench.world.holds((*a.result)->bytes(), kA));
}

TEST_CASE("reap alone brings completions in while the event loop stands still") {
  Bench bench(4);
  bench.disk->held = true;
  const std::vector<ExpertKey> keys{kA, kB};
  bench.stream->request(keys);
  bench.disk->finish_all();
  bench.stream->reap();
  CHECK(bench.stream->in_flight() == 0);
  CHECK(bench.good(kA));
}

TEST_CASE("wishes beyond the slots start as slots come free, each read once") {
  Bench bench(2);
  bench.disk->held = true;
  const std::vector<ExpertKey> keys{{1, 0}, {1, 1}, {1, 2}, {1, 3}};
  bench.stream->request(keys);
  CHECK(bench.disk->waiting() == 2);
  bench.disk->finish_all();
  bench.stream->reap();
  CHECK(bench.disk->waiting() == 0);  // both are Ready and wished for
  {
    const auto lease = get(bench.context, *bench.stream, keys[0]);
    REQUIRE(lease.has_value());
    bench.stream->reap();
    CHECK(bench.disk->waiting() == 0);
  }
  CHECK(bench.disk->waiting() == 1);  // the lease's end was enough
  bench.disk->held = false;
  bench.disk->finish_all();
  for (std::size_t i = 1; i < keys.size(); ++i) CHECK(bench.good(keys[i]));
  CHECK(bench.disk->submitted == 4);
}

TEST_CASE("a new wish list leaves reads in flight alone") {
  Bench bench(4);
  bench.disk->held = true;
  const std::vector<ExpertKey> first{kA, kB}, second{kD};
  bench.stream->request(first);
  bench.stream->request(second);
  CHECK(bench.disk->waiting() == 3);
  bench.disk->finish_all();
  bench.stream->reap();
  CHECK(bench.good(kA));
  CHECK(bench.disk->submitted == 3);
}

TEST_CASE("an expert nobody wished for is read at once, at the cost of the wish wanted last") {
  Bench bench(2);
  const std::vector<ExpertKey> keys{kA, kB};
  bench.stream->request(keys);
  settle(bench.context);
  CHECK(bench.good(kD));
  CHECK(bench.good(kA));
  CHECK(bench.good(kB));
  CHECK(bench.disk->submitted == 4);  // A, B, D and B again
}

TEST_CASE("guesses are read while the drive has nothing else to do, a few at a time") {
  Bench bench(6);
  bench.disk->held = true;
  const std::vector<ExpertKey> wanted{kA, kB}, likely{{2, 0}, {2, 1}, {2, 2}};
  bench.stream->request(wanted);
  bench.stream->guess(likely, 2);
  CHECK(bench.disk->waiting() == 2);  // the drive is busy with what is wanted
  bench.disk->finish(0);
  bench.stream->reap();
  CHECK(bench.disk->waiting() == 2);  // one wanted, one guessed
  bench.disk->finish(0);
  bench.stream->reap();
  CHECK(bench.disk->waiting() == 2);
  bench.disk->finish(0);
  bench.stream->reap();
  CHECK(bench.disk->waiting() == 2);
  CHECK(bench.stream->counters().guesses == 3);
  bench.disk->finish_all();
  bench.stream->reap();
  CHECK(bench.disk->waiting() == 0);

  const std::vector<ExpertKey> next{{2, 1}, {2, 3}};
  bench.stream->request(next);
  CHECK(bench.disk->waiting() == 1);  // the other was guessed
  CHECK(bench.good({2, 1}));
  CHECK(bench.stream->counters().guesses_used == 1);
  CHECK(bench.good({2, 1}));
  CHECK(bench.stream->counters().guesses_used == 1);
  bench.disk->finish_all();
}

TEST_CASE("a request ends guessing, and joins a guess on its way") {
  Bench bench(6);
  bench.disk->held = true;
  const std::vector<ExpertKey> likely{{2, 0}, {2, 1}, {2, 2}}, next{{2, 0}};
  bench.stream->guess(likely, 1);
  CHECK(bench.disk->waiting() == 1);
  Pending pending;
  bench.stream->request(next);
  bench.begin({2, 0}, pending);
  CHECK(bench.disk->submitted == 1);
  bench.disk->finish_all();
  settle(bench.context);
  REQUIRE(pending.ok());
  CHECK(bench.world.holds((*pending.result)->bytes(), {2, 0}));
  CHECK(bench.disk->submitted == 1);
}

TEST_CASE("a guess that cannot be read troubles nobody, and is read again when it is wanted") {
  Bench bench(4);
  bench.disk->fate = [](const Completion&) { return Fate{EIO}; };
  const std::vector<ExpertKey> likely{kA, kB};
  bench.stream->guess(likely, 2);
  bench.stream->reap();
  bench.stream->reap();
  CHECK(bench.stream->in_flight() == 0);
  CHECK(bench.disk->submitted == 2);
  bench.disk->fate = nullptr;
  CHECK(bench.good(kA));
}

TEST_CASE("with one slot a guess on its way delays what is wanted, and no more") {
  Bench bench(1);
  bench.disk->held = true;
  const std::vector<ExpertKey> likely{kA}, wanted{kB};
  bench.stream->guess(likely, 2);
  bench.stream->request(wanted);
  Pending pending;
  bench.begin(kB, pending);
  CHECK(bench.disk->submitted == 1);
  bench.disk->held = false;
  bench.disk->finish_all();
  settle(bench.context);
  REQUIRE(pending.ok());
  CHECK(bench.world.holds((*pending.result)->bytes(), kB));
}

TEST_CASE("the queue depth bounds the reads in flight, and all still arrive") {
  for (const unsigned depth : {1U, 4U}) {
    Bench bench(4, Placement::scattered, depth);
    bench.disk->held = true;
    Pending a;
    bench.begin(kA, a);
    CHECK(bench.disk->waiting() == depth);
    CHECK(bench.stream->in_flight() == 6);
    while (!a.result) {
      bench.disk->finish(0);
      settle(bench.context);
    }
    REQUIRE(a.ok());
    CHECK(bench.world.holds((*a.result)->bytes(), kA));
    CHECK(bench.disk->most_in_flight == depth);
  }
}

TEST_CASE("a key outside the model is an error, not a read") {
  Bench bench(1);
  for (const ExpertKey key : {ExpertKey{0, 0}, ExpertKey{3, 0}, ExpertKey{1, 4}}) {
    const auto lease = get(bench.context, *bench.stream, key);
    REQUIRE(lease.has_error());
    CHECK(lease.error().code == ErrorCode::internal);
  }
  CHECK(bench.disk->submitted == 0);
}

}  // namespace k3::experts::test
