// How often a cache of experts would have held what a recorded run asked for: the slot pool of this program, the usual policies,
// and the best that any could do.
#pragma once

#include "model/routes.hpp"

namespace k3 {

struct CachePolicy {
  const char* name;
  const char* what;
  // Requests found in memory, with so many slots for all layers; `experts` in each layer. What one token asks of one layer counts
  // as asked for at once.
  std::size_t (*hits)(const Routes& routes, std::size_t experts, std::size_t slots);
};

// The last is the best possible: it knows what will be asked for. The one before it is what runs here.
std::span<const CachePolicy> cache_policies();

}  // namespace k3
