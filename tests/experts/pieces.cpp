// Experts read in pieces, and the choice of how large those are.
#include <set>

#include "model/experts/read_shape.hpp"
#include "tests/experts/bench.hpp"

namespace k3::experts::test {

TEST_CASE("the pieces of a window follow each other without a gap, and each is needed") {
  const Window window{3, 8192, 5 * 4096, 4 * 4096 + 1, 12288};
  for (const std::uint64_t most : {0U, 4096U, 8192U, 12288U, 20480U, 1U << 20}) {
    CAPTURE(most);
    std::uint64_t from = 0, needed = 0;
    std::size_t count = 0;
    while (from < window.length) {
      const Window piece = piece_of(window, from, most);
      CHECK(piece.file == window.file);
      CHECK(piece.offset == window.offset + from);
      CHECK(piece.at == window.at + from);
      CHECK(piece.length > 0);
      CHECK((most == 0 || piece.length <= most));
      CHECK(piece.needed > 0);
      CHECK(piece.needed <= piece.length);
      from += piece.length;
      needed += piece.needed;
      ++count;
    }
    CHECK(from == window.length);
    CHECK(needed == window.needed);
    CHECK(count <= most_reads(window.length, most));
  }
}

TEST_CASE("every byte arrives in pieces of any size, in any order, at any depth") {
  const auto placement = GENERATE(Placement::together, Placement::scattered, Placement::two_files);
  const std::uint64_t bytes = GENERATE(4096U, 8192U, 12288U);
  for (const unsigned depth : {1U, 3U, 32U}) {
    CAPTURE(bytes, depth);
    Bench bench(2, placement, depth, 1, bytes);
    bench.disk->held = true;
    const std::vector<ExpertKey> keys{kA, kB};
    bench.stream->request(keys);
    Pending a, b;
    bench.begin(kA, a);
    while (!a.result) {
      REQUIRE(bench.disk->waiting() > 0);
      CHECK(bench.disk->waiting() <= depth);
      for (std::size_t i = 0; i < bench.disk->waiting(); ++i) CHECK(bench.disk->at(i).length <= bytes);
      bench.disk->finish(bench.disk->waiting() - 1);  // the youngest first
      settle(bench.context);
    }
    REQUIRE(a.ok());
    CHECK(bench.world.holds((*a.result)->bytes(), kA));
    bench.disk->held = false;
    bench.disk->finish_all();
    CHECK(bench.good(kB));
    CHECK(bench.stream->counters().misses == 2);
    CHECK(bench.stream->counters().errors == 0);
  }
}

TEST_CASE("the last sectors of a file may be short, in pieces too") {
  Bench bench(1, Placement::together, 4, 1, 4096);
  const ExpertKey last{2, 3};
  CHECK(bench.good(last));
}

TEST_CASE("one bad piece fails its expert, once, and is read from another drive where there is one") {
  const unsigned drives = GENERATE(1U, 2U);
  Bench bench(2, Placement::together, 32, drives, 4096);
  const Window window = plan_windows(bench.world.layout.places[bench.world.layout.index(kB)]).windows[0];
  const std::uint64_t bad = window.offset + 2 * 4096;
  int first = -1;  // the drive that has the bad sector
  bench.disk->fate = [&](const Completion& read) {
    if (read.offset != bad) return Fate{};
    if (first < 0) first = read.fd;
    return read.fd == first ? Fate{EIO} : Fate{};
  };
  const auto lease = get(bench.context, *bench.stream, kB);
  CHECK(bench.stream->in_flight() == 0);
  if (drives == 2) {
    REQUIRE(lease.has_value());
    CHECK(bench.world.holds(lease->bytes(), kB));
    return;
  }
  REQUIRE(lease.has_error());
  CHECK(lease.error().offset == static_cast<std::int64_t>(bad));
  CHECK(bench.stream->counters().errors == 1);
  bench.disk->fate = nullptr;
  CHECK(bench.good(kB));
}

namespace {

// A drive of which each shape's speeds are known beforehand, turn by turn.
struct KnownDrive {
  std::vector<double> whole, of_4_mb, of_1_mb;
  std::size_t whole_turn = 0, turn_4_mb = 0, turn_1_mb = 0;
  Result<double> operator()(const ReadShape& shape) {
    if (shape.bytes == 0) return whole.at(whole_turn++);
    return shape.bytes == std::uint64_t{4} << 20 ? of_4_mb.at(turn_4_mb++) : of_1_mb.at(turn_1_mb++);
  }
};

}  // namespace

TEST_CASE("pieces are read only from a drive that gives them up faster every time") {
  const auto chosen = [](KnownDrive drive) { return choose_read_shape(std::ref(drive)); };
  CHECK(chosen({{3, 3, 3}, {2, 2, 2}, {1, 1, 1}}) == ReadShape{});
  CHECK(chosen({{3, 3, 3}, {4, 4, 4}, {5, 2, 5}}).bytes == 4U << 20);
  CHECK(chosen({{3, 3, 3}, {4, 4, 4}, {5, 5, 5}}).bytes == 1U << 20);
  CHECK(chosen({{3, 3, 3}, {4, 4, 4}, {5, 5, 5}}).depth == 32);
  CHECK(chosen({{1, 4, 1}, {3, 3, 3}, {2, 2, 2}}) == ReadShape{});  // it was as fast as that once
}

TEST_CASE("a drive that cannot be measured is read in the plain way") {
  int asked = 0;
  const auto broken = [&asked](const ReadShape& shape) -> Result<double> {
    ++asked;
    if (shape.bytes == 0) return 1.0;
    return fail(ErrorCode::io, "no");
  };
  CHECK(choose_read_shape(broken) == ReadShape{});
  CHECK(asked == 2);
}

}  // namespace k3::experts::test
