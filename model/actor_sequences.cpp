#include "model/actor_sequences.hpp"

#include <algorithm>

namespace k3 {

Sequence& LiveSequences::take(std::span<const std::int32_t> prompt) {
  auto best = sequences_.end();
  for (auto it = sequences_.begin(); it != sequences_.end(); ++it) {
    const auto ids = (*it)->ids();
    if (ids.size() >= prompt.size() || !std::equal(ids.begin(), ids.end(), prompt.begin())) continue;
    if (best == sequences_.end() || ids.size() > (*best)->committed()) best = it;
  }
  if (best != sequences_.end()) {
    std::rotate(sequences_.begin(), best, best + 1);
    return *sequences_.front();
  }
  // The old one goes before the new one comes: together they might not fit.
  if (sequences_.size() >= capacity_) sequences_.pop_back();
  sequences_.insert(sequences_.begin(), std::make_unique<Sequence>(config_, latents_));
  return *sequences_.front();
}

}  // namespace k3
