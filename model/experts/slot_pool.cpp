#include "model/experts/slot_pool.hpp"

#include <algorithm>
#include <cassert>

namespace k3::experts {

SlotPool::SlotPool(std::size_t slots, std::uint32_t first_layer, std::uint32_t layers, std::uint32_t experts)
    : first_layer_(first_layer), experts_(experts), slots_(slots), held_(layers) {
  assert(slots > 0 && slots < kNone);
  for (std::size_t slot = slots; slot > 0; --slot) free_.push_back(static_cast<std::uint32_t>(slot - 1));
  slot_of_.assign(std::size_t{layers} * experts, kNone);
  wish_of_.assign(std::size_t{layers} * experts, 0);
}

std::optional<std::size_t> SlotPool::find(ExpertKey key) const {
  const std::uint32_t slot = slot_of_[index(key)];
  return slot == kNone ? std::nullopt : std::optional<std::size_t>(slot);
}

std::optional<std::size_t> SlotPool::take(ExpertKey key, Urgency urgency) {
  assert(!find(key));
  const std::uint32_t layer = key.layer - first_layer_;
  if (free_.empty()) {
    std::uint32_t victim = unneeded(layer);
    if (victim == kNone && urgency == Urgency::demand) victim = wished_last();
    if (victim == kNone) return std::nullopt;
    vacate(victim);
  }
  const std::uint32_t slot = free_.back();
  free_.pop_back();
  slots_[slot] = Slot{key, State::loading, false, 0, ++clock_};
  held_[layer].push_back(slot);
  slot_of_[index(key)] = slot;
  return slot;
}

void SlotPool::loaded(std::size_t slot) {
  Slot& s = slots_[slot];
  assert(s.state == State::loading);
  s.state = s.pins > 0 ? State::pinned : State::ready;
  s.parked = false;
}

void SlotPool::failed(std::size_t slot) {
  assert(slots_[slot].state == State::loading);
  vacate(slot);
}

void SlotPool::pin(std::size_t slot) {
  Slot& s = slots_[slot];
  assert(s.state != State::free);
  ++s.pins;
  s.parked = false;
  s.used = ++clock_;
  if (s.state == State::ready) s.state = State::pinned;
}

void SlotPool::unpin(std::size_t slot) {
  Slot& s = slots_[slot];
  assert(s.pins > 0);
  if (--s.pins > 0) return;
  if (s.state == State::loading) {
    s.parked = true;
  } else {
    s.state = State::ready;
  }
}

void SlotPool::set_wishes(std::span<const ExpertKey> keys) {
  for (const ExpertKey key : wishes_) wish_of_[index(key)] = 0;
  wishes_.assign(keys.begin(), keys.end());
  first_wish_ = 0;
  for (std::size_t i = 0; i < keys.size(); ++i) wish_of_[index(keys[i])] = static_cast<std::uint32_t>(i + 1);
}

std::optional<ExpertKey> SlotPool::next_wish() {
  while (first_wish_ < wishes_.size() && wish_of_[index(wishes_[first_wish_])] == 0) ++first_wish_;
  for (std::size_t i = first_wish_; i < wishes_.size(); ++i) {
    const std::size_t at = index(wishes_[i]);
    if (wish_of_[at] != 0 && slot_of_[at] == kNone) return wishes_[i];
  }
  return std::nullopt;
}

std::uint32_t SlotPool::coldest_of_layer(std::uint32_t layer) const {
  std::uint32_t coldest = kNone;
  for (const std::uint32_t slot : held_[layer]) {
    if (slots_[slot].state != State::ready || wish(slot) != 0) continue;
    if (coldest == kNone || slots_[slot].used < slots_[coldest].used) coldest = slot;
  }
  return coldest;
}

// The least recent of the layer that is furthest over its share. A token visits all layers in turn, so plain recency over all of
// them would always throw out just what comes next. The asking layer counts as one more, and wins ties: a layer at its share
// replaces its own.
std::uint32_t SlotPool::unneeded(std::uint32_t for_layer) const {
  std::uint32_t victim = coldest_of_layer(for_layer);
  std::size_t most = victim == kNone ? 0 : held_[for_layer].size() + 1;
  for (std::uint32_t layer = 0; layer < held_.size(); ++layer) {
    const std::size_t holds = held_[layer].size();
    if (layer == for_layer || holds == 0 || holds < most) continue;
    const std::uint32_t coldest = coldest_of_layer(layer);
    if (coldest == kNone) continue;
    const bool older =
        victim != kNone && slots_[victim].key.layer - first_layer_ != for_layer && slots_[coldest].used < slots_[victim].used;
    if (holds > most || older) {
      victim = coldest;
      most = holds;
    }
  }
  return victim;
}

// Of what is wished for, that which will be wanted last: reading it again is the cheapest to put off.
std::uint32_t SlotPool::wished_last() const {
  std::uint32_t last = kNone;
  for (std::uint32_t slot = 0; slot < slots_.size(); ++slot) {
    if (slots_[slot].state == State::ready && (last == kNone || wish(slot) > wish(last))) last = slot;
  }
  return last;
}

void SlotPool::vacate(std::size_t slot) {
  const ExpertKey key = slots_[slot].key;
  auto& held = held_[key.layer - first_layer_];
  held.erase(std::find(held.begin(), held.end(), static_cast<std::uint32_t>(slot)));
  slot_of_[index(key)] = kNone;
  slots_[slot] = Slot{};
  free_.push_back(static_cast<std::uint32_t>(slot));
}

}  // namespace k3::experts
