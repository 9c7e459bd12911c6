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

namespace {

// One step of layer 0: all wished for at once, each read unless it is there, all used.
void step(SlotPool& pool, const std::vector<std::uint32_t>& experts, const std::vector<float>& worth) {
  std::vector<ExpertKey> keys;
  for (const std::uint32_t expert : experts) keys.push_back({0, expert});
  pool.set_wishes(keys, worth);
  for (const ExpertKey key : keys) {
    pool.consume(key);
    if (!pool.find(key)) load(pool, key);
  }
}

std::vector<std::uint32_t> held(const SlotPool& pool) {
  std::vector<std::uint32_t> out;
  for (std::uint32_t expert = 0; expert < 8; ++expert) {
    if (pool.find({0, expert})) out.push_back(expert);
  }
  return out;
}

using Held = std::vector<std::uint32_t>;

}  // namespace

TEST_CASE("of a step's experts those stay that were worth most to it") {
  SlotPool pool(3, 0, 1, 8);
  step(pool, {0, 1, 2}, {0.3F, 1.0F, 0.6F});
  step(pool, {3}, {1.0F});
  CHECK(held(pool) == Held{1, 2, 3});
  step(pool, {4}, {1.0F});
  CHECK(held(pool) == Held{1, 3, 4});
}

TEST_CASE("what was of little use lately outlives what was of much use before, and use adds up") {
  SlotPool pool(3, 0, 1, 8);
  step(pool, {0, 1}, {1.0F, 1.0F});
  step(pool, {1, 2}, {0.25F, 0.25F});
  step(pool, {3}, {0.25F});
  CHECK(held(pool) == Held{1, 2, 3});  // 0: 1/25; 2: 1/20
  step(pool, {4}, {0.25F});
  CHECK(held(pool) == Held{1, 3, 4});  // 1: 1/125 + 1/100; 2: 1/100
}

TEST_CASE("worth compares rightly however long ago it was") {
  SlotPool pool(3, 0, 1, 8);
  step(pool, {0, 1}, {0.5F, 1.0F});
  for (int i = 0; i < 5000; ++i) step(pool, {7}, {1.0F});
  step(pool, {2}, {1.0F});
  CHECK(held(pool) == Held{1, 2, 7});
}

TEST_CASE("a step of many that are worth nothing leaves those that were") {
  SlotPool pool(3, 0, 1, 8);
  step(pool, {0, 1}, {1.0F, 0.5F});
  step(pool, {2, 3, 4, 5, 6, 7}, {0, 0, 0, 0, 0, 0});
  CHECK(held(pool) == Held{0, 1, 7});
}

TEST_CASE("a guess takes what nobody needs, and stays until something is wished for") {
  SlotPool pool(3, 0, 1, 8);
  step(pool, {0, 1, 2}, {0.3F, 1.0F, 0.6F});
  const std::vector<ExpertKey> guesses{{0, 1}, {0, 5}, {0, 6}, {0, 7}};
  pool.set_guesses(guesses);
  REQUIRE(pool.next_guess() == ExpertKey{0, 5});  // 1 is there
  const auto slot = pool.take({0, 5}, Urgency::guess);
  REQUIRE(slot.has_value());
  CHECK(held(pool) == Held{1, 2, 5});
  SECTION("one that failed is not guessed again") {
    pool.failed(*slot);
    CHECK(pool.next_guess() == ExpertKey{0, 6});
  }
  SECTION("guesses push neither each other out nor what is likely and there") {
    pool.loaded(*slot);
    const auto more = pool.take({0, 6}, Urgency::guess);
    REQUIRE(more.has_value());
    pool.loaded(*more);
    CHECK(held(pool) == Held{1, 5, 6});
    CHECK_FALSE(pool.take({0, 7}, Urgency::guess).has_value());
    const std::vector<ExpertKey> others{{0, 7}};
    pool.set_guesses(others);
    CHECK(pool.take({0, 7}, Urgency::guess).has_value());
    CHECK(held(pool) == Held{5, 6, 7});  // 1 is not among the likely ones any more
  }
  SECTION("wishes end it: a wrong guess is the first to go") {
    pool.loaded(*slot);
    step(pool, {3}, {1.0F});
    CHECK(held(pool) == Held{1, 2, 3});
    CHECK_FALSE(pool.next_guess().has_value());
  }
  SECTION("a demand out of turn finds a slot") {
    pool.loaded(*slot);
    pool.loaded(*pool.take({0, 6}, Urgency::guess));
    CHECK(pool.take({0, 3}, Urgency::demand).has_value());
  }
}

TEST_CASE("a guess never takes what is wished for") {
  SlotPool pool(1, 0, 1, 8);
  load(pool, {0, 0});
  const std::vector<ExpertKey> wishes{{0, 0}}, guesses{{0, 1}};
  pool.set_wishes(wishes);
  pool.set_guesses(guesses);
  CHECK_FALSE(pool.take({0, 1}, Urgency::guess).has_value());
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
            constexpr Urgency all[] = {Urgency::guess, Urgency::wish, Urgency::demand};
            const auto taken = pool.take(key, all[below(3)]);
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
          if (below(2) == 0) {
            pool.set_wishes(wishes);
          } else {
            pool.set_guesses(wishes);
          }
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
