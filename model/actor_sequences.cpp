#include "model/actor_sequences.hpp"

#include <algorithm>
#include <cassert>
#include <new>

namespace k3 {

LiveSequences::Taken LiveSequences::take(std::span<const std::int32_t> prompt) {
  auto best = live_.end();
  for (auto it = live_.begin(); it != live_.end(); ++it) {
    const auto ids = it->sequence->ids();
    if (it->taken || ids.size() >= prompt.size() || !std::equal(ids.begin(), ids.end(), prompt.begin())) continue;
    if (best == live_.end() || ids.size() > best->sequence->committed()) best = it;
  }
  if (best != live_.end()) {
    std::rotate(live_.begin(), best, best + 1);
  } else {
    // The old one goes before the new one comes: together they might not fit.
    if (live_.size() >= capacity_) {
      const auto oldest = std::find_if(live_.rbegin(), live_.rend(), [](const Live& live) { return !live.taken; });
      assert(oldest != live_.rend());
      live_.erase(std::next(oldest).base());
    }
    live_.insert(live_.begin(), {std::make_unique<Sequence>(config_, latents_), false});
  }
  live_.front().taken = true;
  post();
  return Taken(live_.front().sequence.get(), GiveBack{this});
}

void LiveSequences::give_back(const Sequence* sequence) {
  const auto own = std::find_if(live_.begin(), live_.end(), [&](const Live& live) { return live.sequence.get() == sequence; });
  assert(own != live_.end() && own->taken);
  own->taken = false;
  post();
}

// Where there is no memory for it, nothing is known: this also runs in destructors.
void LiveSequences::post() const {
  std::vector<std::vector<std::int32_t>> kept;
  try {
    for (const Live& live : live_) {
      if (live.taken) continue;
      const auto ids = live.sequence->ids();
      kept.emplace_back(ids.begin(), ids.end());
    }
  } catch (const std::bad_alloc&) {
    kept.clear();
  }
  mailbox_.keep(std::move(kept));
}

}  // namespace k3
