#include "model/experts/windows.hpp"

#include <cerrno>

#include "tests/catch.hpp"

namespace k3::experts {

using Outcome = ReadProgress::Outcome;

namespace {

Pieces pieces_at(std::array<std::uint64_t, 6> offsets, std::uint32_t bytes, std::array<std::uint32_t, 6> files = {}) {
  Pieces pieces;
  for (std::size_t i = 0; i < 6; ++i) pieces[i] = {offsets[i], bytes, files[i]};
  return pieces;
}

ReadProgress begun(std::uint64_t length, std::uint64_t needed) {
  ReadProgress progress;
  progress.begin(Window{0, 0, length, needed, 0});
  return progress;
}

}  // namespace

TEST_CASE("neighbours share one aligned window, whatever their order") {
  const WindowPlan plan = plan_windows(pieces_at({5000, 4000, 7000, 6000, 9000, 8000}, 1000));
  REQUIRE(plan.count == 1);
  CHECK(plan.windows[0].offset == 0);
  CHECK(plan.windows[0].needed == 10000);
  CHECK(plan.windows[0].length == 12288);
  CHECK(plan.bytes == 12288);
  CHECK(plan.part_at == std::array<std::uint64_t, 6>{5000, 4000, 7000, 6000, 9000, 8000});
}

TEST_CASE("the head before an unaligned start is read and skipped") {
  const WindowPlan plan = plan_windows(pieces_at({8191, 8192, 8193, 8194, 8195, 8196}, 1));
  REQUIRE(plan.count == 1);
  CHECK(plan.windows[0].offset == 4096);
  CHECK(plan.windows[0].length == 8192);
  CHECK(plan.windows[0].needed == 4101);
  CHECK(plan.part_at[0] == 4095);
}

TEST_CASE("tensors far apart or in different files get windows of their own") {
  const WindowPlan plan = plan_windows(pieces_at({0, 100, 20000, 40000, 60000, 100}, 50, {0, 0, 0, 0, 0, 1}));
  REQUIRE(plan.count == 5);
  for (std::size_t i = 0; i < plan.count; ++i) {
    CHECK(plan.windows[i].offset % kAlignment == 0);
    CHECK(plan.windows[i].at == i * kAlignment);
  }
  CHECK(plan.part_at[1] == 100);
  CHECK(plan.part_at[2] == kAlignment + 20000 - 16384);
  CHECK(plan.windows[4].file == 1);
  CHECK(plan.part_at[5] == 4 * kAlignment + 100);
  CHECK(plan.bytes == 5 * kAlignment);
}

TEST_CASE("windows that touch are merged, so that none overlaps another") {
  // The first ends in the page in which the second begins.
  const WindowPlan plan = plan_windows(pieces_at({0, 5000, 8192, 12288, 16384, 20480}, 4000));
  REQUIRE(plan.count == 1);
  CHECK(plan.windows[0].needed == 24480);
}

TEST_CASE("a whole read is done, and so is one that stops after the needed bytes") {
  auto progress = begun(8192, 5000);
  CHECK(progress.next_offset() == 0);
  CHECK(progress.next_length() == 8192);
  SECTION("whole") { CHECK(progress.advance(8192) == Outcome::done); }
  SECTION("end of file just after") { CHECK(progress.advance(5000) == Outcome::done); }
}

TEST_CASE("a short read resumes on the boundary at or before its end") {
  auto progress = begun(12288, 12000);
  CHECK(progress.advance(5000) == Outcome::again);
  CHECK(progress.next_offset() == 4096);
  CHECK(progress.next_length() == 8192);
  CHECK(progress.filled() == 5000);
  CHECK(progress.advance(4096) == Outcome::again);
  CHECK(progress.next_offset() == 8192);
  CHECK(progress.advance(3808) == Outcome::done);
}

TEST_CASE("a file that ends too early is truncated, on a boundary or within a sector") {
  auto progress = begun(12288, 12000);
  SECTION("on a boundary") {
    CHECK(progress.advance(8192) == Outcome::again);
    CHECK(progress.advance(0) == Outcome::truncated);
    CHECK(progress.filled() == 8192);
  }
  SECTION("within a sector: the same bytes again and again, but not for ever") {
    CHECK(progress.advance(9000) == Outcome::again);
    int tries = 0;
    Outcome outcome = Outcome::again;
    while (outcome == Outcome::again && ++tries < 1000) outcome = progress.advance(9000 - 8192);
    CHECK(outcome == Outcome::truncated);
    CHECK(progress.filled() == 9000);
    CHECK(tries == ReadProgress::kMaxStalls + 1);
  }
}

TEST_CASE("interruptions are retried a bounded number of times, counted from the last byte that came") {
  for (const int error : {EINTR, EAGAIN}) {
    auto progress = begun(1 << 20, 1 << 20);
    for (int i = 0; i < ReadProgress::kMaxStalls; ++i) CHECK(progress.advance(-error) == Outcome::again);
    SECTION("a byte more starts the count anew") {
      CHECK(progress.advance(4096) == Outcome::again);
      for (int i = 0; i < ReadProgress::kMaxStalls; ++i) CHECK(progress.advance(-error) == Outcome::again);
    }
    CHECK(progress.advance(-error) == Outcome::failed);
  }
}

TEST_CASE("any other error is final") { CHECK(begun(4096, 4096).advance(-EIO) == Outcome::failed); }

TEST_CASE("a huge window is asked for in aligned parts") {
  auto progress = begun(std::uint64_t{5} << 30, std::uint64_t{5} << 30);
  CHECK(progress.next_length() == 1U << 30);
  CHECK(progress.advance(1 << 30) == Outcome::again);
  CHECK(progress.next_offset() == std::uint64_t{1} << 30);
}

}  // namespace k3::experts
