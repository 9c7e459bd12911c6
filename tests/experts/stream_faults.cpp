// The stream over a disk in trouble.
#include "tests/experts/bench.hpp"

namespace k3::experts::test {

TEST_CASE("short reads, interruptions and refusals for the moment are overcome") {
  Bench bench(2, GENERATE(Placement::together, Placement::scattered));
  std::size_t n = 0;
  bench.disk->fate = [&n](const Completion&) -> Fate {
    switch (++n % 4) {
      case 0:
        return {};
      case 1:
        return {EINTR};
      case 2:
        return {EAGAIN};
      default:
        return {0, 4096 + 1000};
    }
  };
  CHECK(bench.good(kA));
  CHECK(bench.good(kD));
  CHECK(bench.disk->submitted > 4);
}

TEST_CASE("a disk that only ever says try again is an error in the end") {
  Bench bench(1);
  bench.disk->fate = [](const Completion&) { return Fate{EAGAIN}; };
  const auto lease = get(bench.context, *bench.stream, kA);
  REQUIRE(lease.has_error());
  CHECK(lease.error().code == ErrorCode::io);
  CHECK(bench.disk->submitted == ReadProgress::kMaxStalls + 1U);
}

TEST_CASE("a read error fails that expert only, says where, and a later try may succeed") {
  Bench bench(2);
  const auto plan = plan_windows(bench.world.layout.places[bench.world.layout.index(kB)]);
  bench.disk->fate = [&](const Completion& read) { return read.offset >= plan.windows[0].offset ? Fate{EIO} : Fate{}; };
  CHECK(bench.good(kA));
  const auto lease = get(bench.context, *bench.stream, kB);
  REQUIRE(lease.has_error());
  const Error error = lease.error();
  CHECK(error.code == ErrorCode::io);
  CHECK(error.file == bench.world.layout.files[0].path.string());
  CHECK(error.offset == static_cast<std::int64_t>(plan.windows[0].offset));
  CHECK(error.expected.find(std::to_string(plan.windows[0].needed)) != std::string::npos);
  CHECK(error.got.find(std::strerror(EIO)) != std::string::npos);
  CHECK(bench.stream->counters().errors == 1);
  CHECK(bench.good(kA));
  bench.disk->fate = nullptr;
  CHECK(bench.good(kB));
}

TEST_CASE("an error half-way frees the slot only when the other windows are in") {
  Bench bench(1, Placement::scattered);
  bench.disk->held = true;
  bench.disk->fate = [](const Completion& read) { return read.offset == 0 ? Fate{EIO} : Fate{}; };
  Pending a, b;
  bench.begin(kA, a);
  bench.begin(kD, b);
  REQUIRE(bench.disk->waiting() == 6);
  bench.disk->finish(0);
  settle(bench.context);
  CHECK_FALSE(a.result.has_value());
  CHECK(bench.disk->waiting() == 5);  // nothing of the second expert: its memory would be the first one's
  for (int i = 0; i < 5; ++i) bench.disk->finish(0);
  settle(bench.context);
  CHECK(a.failed(ErrorCode::io));
  bench.disk->fate = nullptr;
  bench.disk->finish_all();
  settle(bench.context);
  REQUIRE(b.ok());
  CHECK(bench.world.holds((*b.result)->bytes(), kD));
}

TEST_CASE("a failed wish is not retried on its own, but by whoever needs it") {
  Bench bench(4);
  int failures = 0;
  bench.disk->fate = [&](const Completion&) { return failures++ == 0 ? Fate{EIO} : Fate{}; };
  const std::vector<ExpertKey> keys{kA, kB};
  bench.stream->request(keys);
  settle(bench.context);
  CHECK(bench.disk->submitted == 2);
  CHECK(bench.good(kA));
  CHECK(bench.good(kB));
  CHECK(bench.disk->submitted == 3);
}

}  // namespace k3::experts::test
