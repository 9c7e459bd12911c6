#include "model/experts/slot_pool.hpp"

#include <random>

#include "tests/catch.hpp"

namespace k3::experts {

using State = SlotPool::State;
using Urgency = SlotPool::Urgency;

namespace {

std::size_t load(SlotPool& pool, ExpertKey key) {
  const auto slot = pool.take(key, Urgency::demand);
  REQUIRE(slot.has_value());
  pool.loaded(*slot);
  return *slot;
}

}  // namespace

TEST_CASE("a slot goes free, loading, ready, pinned and back") {
  SlotPool pool(2, 1, 3, 8);
  CHECK(pool.state(0) == State::free);
  const auto slot = pool.take({1, 5}, Urgency::wish);
  REQUIRE(slot == std::size_t{0});
  CHECK(pool.state(0) == State::loading);
  CHECK(pool.key(0) == ExpertKey{1, 5});
  CHECK(pool.find({1, 5}) == std::size_t{0});
  CHECK_FALSE(pool.find({2, 5}).has_value());
  pool.loaded(0);
  CHECK(pool.state(0) == State::ready);
  pool.pin(0);
  pool.pin(0);
  CHECK(pool.state(0) == State::pinned);
  CHECK(pool.pins(0) == 2);
  pool.unpin(0);
  CHECK(pool.state(0) == State::pinned);
  pool.unpin(0);
  CHECK(pool.state(0) == State::ready);
}

TEST_CASE("a wait given up parks the slot, joining it unparks") {
  SlotPool pool(1, 0, 1, 4);
  REQUIRE(pool.take({0, 0}, Urgency::demand));
  pool.pin(0);
  pool.unpin(0);
  CHECK(pool.state(0) == State::loading);
  CHECK(pool.parked(0));
  CHECK_FALSE(pool.take({0, 1}, Urgency::demand).has_value());
  SECTION("its bytes are good") {
    pool.loaded(0);
    CHECK(pool.state(0) == State::ready);
    CHECK_FALSE(pool.parked(0));
  }
  SECTION("they are not") {
    pool.failed(0);
    CHECK(pool.state(0) == State::free);
    CHECK_FALSE(pool.find({0, 0}).has_value());
  }
  SECTION("somebody joins") {
    pool.pin(0);
    CHECK_FALSE(pool.parked(0));
    pool.loaded(0);
    CHECK(pool.state(0) == State::pinned);
  }
}

TEST_CASE("a failed load voids its pins") {
  SlotPool pool(1, 0, 1, 4);
  REQUIRE(pool.take({0, 0}, Urgency::demand));
  pool.pin(0);
  pool.failed(0);
  CHECK(pool.state(0) == State::free);
  CHECK(pool.pins(0) == 0);
  CHECK(pool.take({0, 1}, Urgency::demand) == std::size_t{0});
}

TEST_CASE("a layer at its share replaces its own least recent") {
  SlotPool pool(4, 0, 2, 8);
  load(pool, {0, 0});
  load(pool, {0, 1});
  load(pool, {1, 0});
  load(pool, {1, 1});
  pool.pin(*pool.find({1, 0}));  // {1, 1} is now the older one
  pool.unpin(*pool.find({1, 0}));
  load(pool, {1, 2});
  CHECK_FALSE(pool.find({1, 1}).has_value());
  CHECK(pool.find({1, 0}).has_value());
  CHECK(pool.find({0, 0}).has_value());
  CHECK(pool.find({0, 1}).has_value());
}

TEST_CASE("a layer below its share takes from the one furthest above") {
  SlotPool pool(6, 0, 3, 8);
  for (std::uint32_t expert = 0; expert < 4; ++expert) load(pool, {0, expert});
  load(pool, {1, 0});
  load(pool, {1, 1});
  load(pool, {2, 0});
  CHECK_FALSE(pool.find({0, 0}).has_value());
  load(pool, {2, 1});
  CHECK_FALSE(pool.find({0, 1}).has_value());
  CHECK(pool.find({1, 0}).has_value());
  load(pool, {2, 2});  // 2, 2 and 2: its own
  CHECK_FALSE(pool.find({2, 0}).has_value());
}

TEST_CASE("among layers equally far above, the least recent goes") {
  SlotPool pool(4, 0, 3, 8);
  load(pool, {1, 0});
  load(pool, {0, 0});
  load(pool, {0, 1});
  load(pool, {1, 1});
  load(pool, {2, 0});
  CHECK_FALSE(pool.find({1, 0}).has_value());
}

TEST_CASE("every layer in turn: a per-layer share beats plain recency") {
  // Plain recency with 4 slots over the cycle of 6 keys never hits. Here each layer keeps its share.
  SlotPool pool(4, 0, 2, 8);
  std::size_t hits = 0;
  for (int round = 0; round < 10; ++round) {
    for (std::uint32_t layer = 0; layer < 2; ++layer) {
      const auto other = static_cast<std::uint32_t>(1 + round % 3);
      for (const std::uint32_t expert : {0U, other}) {
        if (const auto slot = pool.find({layer, expert})) {
          ++hits;
          pool.pin(*slot);
          pool.unpin(*slot);
        } else {
          load(pool, {layer, expert});
        }
      }
    }
  }
  CHECK(hits == 18);  // expert 0 of both layers, from the second round on
}

TEST_CASE("loading and pinned slots are never victims") {
  SlotPool pool(3, 0, 1, 8);
  REQUIRE(pool.take({0, 0}, Urgency::demand) == std::size_t{0});
  const auto pinned = load(pool, {0, 1});
  pool.pin(pinned);
  const auto ready = load(pool, {0, 2});
  CHECK(pool.take({0, 3}, Urgency::demand) == ready);
  CHECK_FALSE(pool.take({0, 4}, Urgency::demand).has_value());
  CHECK_FALSE(pool.take({0, 4}, Urgency::wish).has_value());
}

TEST_CASE("what is wished for stays until consumed, unless a demand finds nothing else") {
  SlotPool pool(2, 0, 1, 8);
  load(pool, {0, 5});
  load(pool, {0, 6});
  const std::vector<ExpertKey> wishes{{0, 4}, {0, 5}, {0, 6}};
  pool.set_wishes(wishes);
  CHECK(pool.next_wish() == ExpertKey{0, 4});
  CHECK_FALSE(pool.take({0, 4}, Urgency::wish).has_value());
  SECTION("the one wanted last goes first") {
    CHECK(pool.take({0, 4}, Urgency::demand).has_value());
    CHECK(pool.find({0, 5}).has_value());
    CHECK_FALSE(pool.find({0, 6}).has_value());
    CHECK(pool.next_wish() == ExpertKey{0, 6});  // to be read again
  }
  SECTION("a consumed one is free to go") {
    pool.consume({0, 5});
    CHECK(pool.take({0, 4}, Urgency::wish).has_value());
    CHECK_FALSE(pool.find({0, 5}).has_value());
    CHECK_FALSE(pool.next_wish().has_value());
  }
  SECTION("a new list ends the protection") {
    pool.set_wishes({});
    CHECK(pool.take({0, 4}, Urgency::wish).has_value());
  }
}

TEST_CASE("random walks keep the pool consistent, and repeat exactly") {
  const auto walk = [](unsigned seed) {
    std::minstd_rand random(seed);
    const auto below = [&random](std::uint32_t n) { return static_cast<std::uint32_t>(random()) % n; };
    SlotPool pool(5, 2, 3, 6);
    std::vector<std::uint32_t> trace;
    for (int step = 0; step < 4000; ++step) {
      const ExpertKey key{2 + below(3), below(6)};
      const std::size_t slot = below(5);
      const State before = pool.state(slot);
      switch (below(7)) {
        case 0:
        case 1:
          if (!pool.find(key)) {
            const auto taken = pool.take(key, below(2) == 0 ? Urgency::wish : Urgency::demand);
            trace.push_back(taken ? static_cast<std::uint32_t>(*taken) : 99);
            if (taken) CHECK(pool.find(key) == *taken);
          }
          break;
        case 2:
          if (before == State::loading) pool.loaded(slot);
          break;
        case 3:
          if (before == State::loading) pool.failed(slot);
          break;
        case 4:
          if (before != State::free) pool.pin(slot);
          break;
        case 5:
          if (pool.pins(slot) > 0) pool.unpin(slot);
          break;
        default: {
          std::vector<ExpertKey> wishes;
          for (unsigned i = below(5); i > 0; --i) wishes.push_back({2 + below(3), below(6)});
          pool.set_wishes(wishes);
        }
      }
      for (std::size_t i = 0; i < pool.size(); ++i) {
        const State state = pool.state(i);
        CHECK((state == State::free || pool.find(pool.key(i)) == i));
        CHECK((state == State::pinned || state == State::loading) >= (pool.pins(i) > 0));
        CHECK((state != State::pinned || pool.pins(i) > 0));
        CHECK((!pool.parked(i) || (state == State::loading && pool.pins(i) == 0)));
      }
    }
    return trace;
  };
  for (unsigned seed = 1; seed <= 5; ++seed) CHECK(walk(seed) == walk(seed));
}

}  // namespace k3::experts
