#include "model/cache_replay.hpp"

#include <algorithm>
#include <map>
#include <set>

#include "model/cache_policies.hpp"
#include "model/experts/slot_pool.hpp"

namespace k3 {

namespace {

std::vector<std::uint32_t> ascending(std::span<const std::uint32_t> ids) {
  std::vector<std::uint32_t> out(ids.begin(), ids.end());
  std::sort(out.begin(), out.end());
  return out;
}

// A cache for each layer, of equal size.
template <class Cache>
std::size_t per_layer(const Routes& routes, std::size_t, std::size_t slots) {
  std::vector<Cache> caches;
  for (std::size_t layer = 0; layer < routes.layers; ++layer) {
    caches.emplace_back(slots / routes.layers + (layer < slots % routes.layers ? 1 : 0));
  }
  std::size_t hits = 0;
  for (std::size_t token = 0; token < routes.tokens(); ++token) {
    for (std::size_t layer = 0; layer < routes.layers; ++layer) {
      const std::vector<std::uint32_t> wanted = ascending(routes.at(token, layer));
      for (const std::uint32_t expert : wanted) hits += caches[layer].holds(expert) ? 1 : 0;
      for (const std::uint32_t expert : wanted) caches[layer].access(expert);
    }
  }
  return hits;
}

// One cache for all layers.
std::size_t global_lru(const Routes& routes, std::size_t experts, std::size_t slots) {
  LruCache cache(slots);
  std::size_t hits = 0;
  for (std::size_t token = 0; token < routes.tokens(); ++token) {
    for (std::size_t layer = 0; layer < routes.layers; ++layer) {
      for (const std::uint32_t expert : ascending(routes.at(token, layer))) {
        const auto name = static_cast<std::uint32_t>(layer * experts + expert);
        hits += cache.holds(name) ? 1 : 0;
        cache.access(name);
      }
    }
  }
  return hits;
}

// The very slots that the stream of experts uses, asked as it asks them.
std::size_t slot_pool(const Routes& routes, std::size_t experts, std::size_t slots) {
  using experts::ExpertKey;
  experts::SlotPool pool(slots, 0, static_cast<std::uint32_t>(routes.layers), static_cast<std::uint32_t>(experts));
  std::size_t hits = 0;
  std::vector<layers::Choice> chosen;
  std::vector<float> worth, wanted_worth;
  std::vector<ExpertKey> wanted;
  for (std::size_t token = 0; token < routes.tokens(); ++token) {
    for (std::uint32_t layer = 0; layer < routes.layers; ++layer) {
      const auto recorded = routes.at(token, layer);
      chosen.clear();  // by rank: weights are not recorded
      for (std::size_t rank = 0; rank < recorded.size(); ++rank)
        chosen.push_back({recorded[rank], static_cast<float>(recorded.size() - rank)});
      worth.assign(experts, 0.0F);
      layers::add_worth(chosen, 1.0F, worth);
      wanted.clear();
      wanted_worth.clear();
      for (const std::uint32_t expert : ascending(recorded)) {
        wanted.push_back({layer, expert});
        wanted_worth.push_back(worth[expert]);
      }
      pool.set_wishes(wanted, wanted_worth);
      for (const ExpertKey key : wanted) hits += pool.find(key) ? 1 : 0;
      for (const ExpertKey key : wanted) {
        pool.consume(key);
        if (pool.find(key)) continue;
        if (const auto slot = pool.take(key, experts::SlotPool::Urgency::demand)) pool.loaded(*slot);
      }
    }
  }
  return hits;
}

// Belady's: who is wanted furthest in the future goes, even if that is the newcomer.
std::size_t clairvoyant(const Routes& routes, std::size_t experts, std::size_t slots) {
  const std::size_t never = ~std::size_t{0};
  std::map<std::size_t, std::vector<std::size_t>> uses;  // of each expert, the latest first
  for (std::size_t token = routes.tokens(); token-- > 0;) {
    for (std::size_t layer = routes.layers; layer-- > 0;) {
      for (const std::uint32_t expert : routes.at(token, layer))
        uses[layer * experts + expert].push_back(token * routes.layers + layer);
    }
  }
  std::set<std::pair<std::size_t, std::size_t>> held;  // next use, expert
  std::size_t hits = 0;
  for (std::size_t token = 0; token < routes.tokens(); ++token) {
    for (std::size_t layer = 0; layer < routes.layers; ++layer) {
      for (const std::uint32_t expert : routes.at(token, layer)) {
        const std::size_t name = layer * experts + expert;
        auto& left = uses[name];
        hits += held.erase({left.back(), name});
        left.pop_back();
        held.insert({left.empty() ? never : left.back(), name});
      }
      while (held.size() > slots) held.erase(std::prev(held.end()));
    }
  }
  return hits;
}

constexpr CachePolicy policies[] = {
    {"lru-global", "least recently used, over all layers", global_lru},
    {"lru", "least recently used, in each layer", per_layer<LruCache>},
    {"lfu", "least frequently used, with ageing, in each layer", per_layer<LfuCache>},
    {"s3-fifo", "small queue, main queue and ghosts, in each layer", per_layer<S3FifoCache>},
    {"arc", "adaptive replacement, in each layer", per_layer<ArcCache>},
    {"k3", "what runs here: the last token first, its heaviest before its lightest", slot_pool},
    {"best", "Belady's optimum: knows what comes", clairvoyant},
};

}  // namespace

std::span<const CachePolicy> cache_policies() { return policies; }

}  // namespace k3
