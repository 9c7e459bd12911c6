// Caches against recorded choices: small cases by hand, and relations that must hold for any recording.
#include "model/cache_replay.hpp"

#include <random>
#include <string>

#include "model/cache_policies.hpp"
#include "tests/catch.hpp"

using namespace k3;

namespace {

std::size_t hits(const std::string& name, const Routes& routes, std::size_t experts, std::size_t slots) {
  for (const CachePolicy& policy : cache_policies()) {
    if (name == policy.name) return policy.hits(routes, experts, slots);
  }
  FAIL("there is no policy " << name);
  return 0;
}

// Favourites that drift, so that both recency and frequency say something.
Routes made_up(std::size_t tokens, std::size_t layers, std::size_t per_token, std::uint32_t experts, unsigned seed) {
  std::mt19937 random(seed);
  Routes routes{layers, per_token, {}};
  for (std::size_t token = 0; token < tokens; ++token) {
    for (std::size_t layer = 0; layer < layers; ++layer) {
      std::vector<std::uint32_t> chosen;
      while (chosen.size() < per_token) {
        const std::uint32_t favourite = static_cast<std::uint32_t>(token / 8 + random() % 4);
        const std::uint32_t expert = (random() % 2 == 0 ? favourite : static_cast<std::uint32_t>(random())) % experts;
        if (std::find(chosen.begin(), chosen.end(), expert) == chosen.end()) chosen.push_back(expert);
      }
      routes.ids.insert(routes.ids.end(), chosen.begin(), chosen.end());
    }
  }
  return routes;
}

}  // namespace

TEST_CASE("by hand: one layer, two slots") {
  const Routes routes{1, 1, {0, 1, 0, 2, 0, 1}};
  CHECK(hits("lru", routes, 3, 2) == 2);   // 0 twice
  CHECK(hits("best", routes, 3, 2) == 3);  // 2 is let through
  CHECK(hits("k3", routes, 3, 2) == 2);
}

TEST_CASE("one recency over all layers finds nothing in a cache smaller than a token") {
  Routes routes{4, 2, {}};
  for (int token = 0; token < 10; ++token) routes.ids.insert(routes.ids.end(), {0, 1, 2, 3, 4, 5, 6, 7});
  CHECK(hits("lru-global", routes, 8, 6) == 0);
  CHECK(hits("k3", routes, 8, 6) >= 9 * 4);
  CHECK(hits("best", routes, 8, 6) == 9 * 6);
}

TEST_CASE("no policy beats the one that knows, and with room for all each misses only once") {
  for (unsigned seed = 1; seed <= 3; ++seed) {
    const Routes routes = made_up(60, 3, 4, 20, seed);
    std::vector<bool> seen(3 * 20);
    std::size_t first_times = 0;
    for (std::size_t token = 0; token < routes.tokens(); ++token) {
      for (std::size_t layer = 0; layer < 3; ++layer) {
        for (const std::uint32_t expert : routes.at(token, layer)) {
          first_times += seen[layer * 20 + expert] ? 0 : 1;
          seen[layer * 20 + expert] = true;
        }
      }
    }
    for (const CachePolicy& policy : cache_policies()) {
      CAPTURE(policy.name);
      for (const std::size_t slots : {1U, 5U, 12U, 24U, 40U}) {
        CHECK(policy.hits(routes, 20, slots) <= hits("best", routes, 20, slots));
      }
      CHECK(policy.hits(routes, 20, 3 * 20) == routes.ids.size() - first_times);
    }
  }
}

TEST_CASE("the simple caches keep to their capacity") {
  std::mt19937 random(7);
  const auto walk = [&random](auto cache, std::size_t capacity) {
    for (int i = 0; i < 3000; ++i) {
      const auto expert = static_cast<std::uint32_t>(random() % (random() % 3 == 0 ? 40 : 9));
      cache.access(expert);
      std::size_t held = 0;
      for (std::uint32_t e = 0; e < 40; ++e) held += cache.holds(e) ? 1 : 0;
      REQUIRE(held <= capacity);
      if (capacity > 0) REQUIRE(cache.holds(expert));
    }
  };
  for (const std::size_t capacity : {0U, 1U, 2U, 7U, 30U}) {
    CAPTURE(capacity);
    walk(LruCache(capacity), capacity);
    walk(LfuCache(capacity), capacity);
    walk(S3FifoCache(capacity), capacity);
    walk(ArcCache(capacity), capacity);
  }
}

TEST_CASE("what is recorded can be imposed, in any model") {
  Routes routes{2, 3, std::vector<std::uint32_t>(2 * 2 * 3)};
  const std::vector<layers::Choice> chosen{{3, 0.2F}, {8, 0.5F}, {11, 0.3F}};
  record(chosen, 1, 0, routes);
  const auto at = routes.at(1, 0);
  CHECK(std::vector<std::uint32_t>(at.begin(), at.end()) == std::vector<std::uint32_t>{8, 11, 3});
  std::vector<layers::Choice> imposed{{0, 1.0F}, {1, 1.0F}, {2, 1.0F}};
  impose(routes, 3, 2, 12, imposed);  // begins again at token 1, layer 0
  REQUIRE(imposed.size() == 3);
  CHECK(imposed[0].expert == 3);
  CHECK(imposed[1].expert == 8);
  CHECK(imposed[2].expert == 11);
  CHECK(imposed[1].weight == Approx(1.5F));
  CHECK(imposed[2].weight == Approx(1.0F));
  CHECK(imposed[0].weight == Approx(0.5F));
  impose(routes, 1, 0, 8, imposed);  // 8 -> 0, 11 -> 3, 3 -> 4: three is taken
  CHECK(imposed[0].expert == 0);
  CHECK(imposed[1].expert == 3);
  CHECK(imposed[2].expert == 4);
}
