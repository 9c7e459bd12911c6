// Waiting, stopping, sharing and ending.
#include <thread>

#include "tests/experts/bench.hpp"

namespace k3::experts::test {

TEST_CASE("a cancelled wait parks the slot") {
  Bench bench(1);
  bench.disk->held = true;
  Pending a;
  bench.begin(kA, a);
  a.stop.request_stop();
  settle(bench.context);
  CHECK(a.failed(ErrorCode::cancelled));
  CHECK(bench.stream->counters().parked == 1);
  CHECK(bench.stream->in_flight() == 1);

  SECTION("a later wait for the same expert joins it") {
    Pending again;
    bench.begin(kA, again);
    CHECK(bench.disk->submitted == 1);
    bench.disk->finish_all();
    settle(bench.context);
    REQUIRE(again.ok());
    CHECK(bench.world.holds((*again.result)->bytes(), kA));
  }
  SECTION("its bytes are good when they come") {
    bench.disk->finish_all();
    bench.stream->reap();
    CHECK(bench.good(kA));
    CHECK(bench.disk->submitted == 1);
  }
  SECTION("another expert waits for the slot, not into it") {
    Pending other;
    bench.begin(kB, other);
    CHECK(bench.disk->submitted == 1);
    bench.disk->finish(0);
    settle(bench.context);
    CHECK(bench.disk->submitted == 2);
    bench.disk->finish_all();
    settle(bench.context);
    REQUIRE(other.ok());
    CHECK(bench.world.holds((*other.result)->bytes(), kB));
  }
  SECTION("on an error it is simply free") {
    bench.disk->fate = [](const Completion&) { return Fate{EIO}; };
    bench.disk->finish_all();
    bench.stream->reap();
    bench.disk->fate = nullptr;
    bench.disk->held = false;
    CHECK(bench.good(kB));
  }
}

TEST_CASE("a stop is heard at every point of a wait") {
  Bench bench(1);
  bench.disk->held = true;
  Pending a;
  SECTION("before it began") {
    a.stop.request_stop();
    bench.begin(kA, a);
    CHECK(bench.disk->submitted == 0);
  }
  SECTION("waiting for a slot") {
    Pending first;
    bench.begin(kB, first);
    bench.begin(kA, a);
    a.stop.request_stop();
    settle(bench.context);
    CHECK(bench.disk->submitted == 1);
    CHECK(a.failed(ErrorCode::cancelled));
    bench.disk->finish_all();
    settle(bench.context);
    CHECK(first.ok());
  }
  SECTION("with the completion already there") {
    bench.begin(kA, a);
    bench.disk->finish_all();
    a.stop.request_stop();
    settle(bench.context);
    REQUIRE(a.result.has_value());  // either answer is right; neither may lose the slot
    a.result.reset();
    bench.disk->held = false;
    CHECK(bench.good(kB));
    return;
  }
  SECTION("on a disk in trouble") {
    bench.disk->fate = [](const Completion&) { return Fate{EAGAIN}; };
    bench.begin(kA, a);
    bench.disk->finish_all();
    settle(bench.context);
    a.stop.request_stop();
    settle(bench.context);
  }
  SECTION("from another thread") {
    bench.begin(kA, a);
    std::thread stopper([&] { a.stop.request_stop(); });
    bench.context.restart();
    while (!a.result) bench.context.run_one();
    stopper.join();
  }
  CHECK(a.failed(ErrorCode::cancelled));
  bench.disk->fate = nullptr;
  bench.disk->held = false;
  CHECK(bench.good(kC));
}

TEST_CASE("two waiters of one expert share its read and its slot") {
  Bench bench(1);
  bench.disk->held = true;
  Pending a, b;
  bench.begin(kA, a);
  bench.begin(kA, b);
  SECTION("both get it") {
    bench.disk->finish_all();
    settle(bench.context);
    REQUIRE((a.ok() && b.ok()));
    CHECK((*a.result)->bytes().w1 == (*b.result)->bytes().w1);
    CHECK(bench.stream->counters().misses == 1);
    CHECK(bench.stream->counters().hits == 1);
  }
  SECTION("one leaves: the other still gets it, nothing is parked") {
    a.stop.request_stop();
    settle(bench.context);
    CHECK(a.failed(ErrorCode::cancelled));
    CHECK(bench.stream->counters().parked == 0);
    bench.disk->finish_all();
    settle(bench.context);
    CHECK(b.ok());
  }
  SECTION("both hear of the error") {
    bench.disk->fate = [](const Completion&) { return Fate{EIO}; };
    bench.disk->finish_all();
    settle(bench.context);
    CHECK((a.failed(ErrorCode::io) && b.failed(ErrorCode::io)));
  }
  CHECK(bench.disk->submitted == 1);
}

TEST_CASE("two waiters of different experts take turns in one slot, without stealing what the other has not seen") {
  Bench bench(1);
  Pending a, b;
  start(bench.context, *bench.stream, kA, a);
  start(bench.context, *bench.stream, kB, b);
  settle(bench.context);
  REQUIRE(a.ok());
  CHECK_FALSE(b.result.has_value());
  CHECK(bench.world.holds((*a.result)->bytes(), kA));
  a.result.reset();
  settle(bench.context);
  REQUIRE(b.ok());
  CHECK(bench.world.holds((*b.result)->bytes(), kB));
  CHECK(bench.stream->counters().reads == 2);
}

TEST_CASE("drain waits for what is in flight, starts nothing new, and the event loop then runs dry") {
  Bench bench(1);
  bench.disk->held = true;
  const std::vector<ExpertKey> keys{kA, kB};
  bench.stream->request(keys);
  bool drained = false;
  asio::co_spawn(bench.context, drain_into(*bench.stream, drained), asio::detached);
  settle(bench.context);
  CHECK_FALSE(drained);
  bench.disk->finish_all();
  bench.context.restart();
  bench.context.run();
  CHECK(drained);
  CHECK(bench.disk->submitted == 1);
}

TEST_CASE("the stream outlives its reads: destroying it waits for them") {
  std::size_t waits = 0;
  Pending a;
  Bench bench(2);
  bench.disk->waits = &waits;
  bench.disk->held = true;
  bench.begin(kA, a);
  bench.stream.reset();  // the frame of acquire() is still asleep in the context
  CHECK(waits == 1);
  settle(bench.context);
  CHECK_FALSE(a.ok());
}

TEST_CASE("a stop after the stream is gone reaches nobody") {
  Pending a;
  Bench bench(2);
  bench.disk->held = true;
  bench.begin(kA, a);
  a.stop.request_stop();
  bench.stream.reset();
  settle(bench.context);
  CHECK_FALSE(a.ok());
}

TEST_CASE("a lease can be moved, and pins until its last owner goes") {
  Bench bench(1);
  auto first = get(bench.context, *bench.stream, kA);
  REQUIRE(first.has_value());
  Lease moved = std::move(*first);
  Lease assigned;
  assigned = std::move(moved);
  Pending b;
  bench.begin(kB, b);
  CHECK_FALSE(b.result.has_value());
  CHECK(bench.world.holds(assigned.bytes(), kA));
  assigned = Lease();
  settle(bench.context);
  CHECK(b.ok());
}

}  // namespace k3::experts::test
