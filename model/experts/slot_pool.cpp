#include "model/experts/slot_pool.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <limits>

namespace k3::experts {

namespace {

// What an expert was worth to a step counts a fifth as much a step later: what the last step had comes first, even its lightest
// expert (a quarter, see layers/router.cpp), and the steps before decide among equals.
constexpr double log2_of_fading = -2.321928;  // 1/5

constexpr double cold = -std::numeric_limits<double>::infinity();

}  // namespace

SlotPool::SlotPool(std::size_t slots, std::uint32_t first_layer, std::uint32_t layers, std::uint32_t experts)
    : first_layer_(first_layer), experts_(experts), slots_(slots), held_(layers) {
  assert(slots > 0 && slots < kNone);
  for (std::size_t slot = slots; slot > 0; --slot) free_.push_back(static_cast<std::uint32_t>(slot - 1));
  slot_of_.assign(std::size_t{layers} * experts, kNone);
  wish_of_.assign(std::size_t{layers} * experts, 0);
  likely_.assign(std::size_t{layers} * experts, false);
  warmth_.assign(std::size_t{layers} * experts, cold);
  layer_age_.assign(layers, 0);
}

std::optional<std::size_t> SlotPool::find(ExpertKey key) const {
  const std::uint32_t slot = slot_of_[index(key)];
  return slot == kNone ? std::nullopt : std::optional<std::size_t>(slot);
}

std::optional<std::size_t> SlotPool::take(ExpertKey key, Urgency urgency) {
  assert(!find(key));
  const std::uint32_t layer = key.layer - first_layer_;
  if (free_.empty()) {
    std::uint32_t victim = unneeded(layer, urgency);
    if (victim == kNone && urgency == Urgency::demand) victim = wished_last();
    if (victim == kNone) return std::nullopt;
    vacate(victim);
  }
  const std::uint32_t slot = free_.back();
  free_.pop_back();
  slots_[slot] = Slot{key, State::loading, false, urgency == Urgency::guess, 0, ++clock_};
  if (urgency == Urgency::guess) {
    guessed_.push_back(slot);
    while (first_guess_ < guesses_.size() && guesses_[first_guess_++] != key) continue;
  }
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

void SlotPool::set_wishes(std::span<const ExpertKey> keys, std::span<const float> worth) {
  assert(worth.empty() || worth.size() == keys.size());
  set_guesses({});
  for (const std::uint32_t slot : guessed_) slots_[slot].guessed = false;
  guessed_.clear();
  for (const ExpertKey key : wishes_) wish_of_[index(key)] = 0;
  wishes_.assign(keys.begin(), keys.end());
  first_wish_ = 0;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    wish_of_[index(keys[i])] = static_cast<std::uint32_t>(i + 1);
    if (i == 0 || keys[i].layer != keys[i - 1].layer) ++layer_age_[keys[i].layer - first_layer_];
    warm(keys[i], worth.empty() ? 1.0F : worth[i]);
  }
}

// Kept as log2(worth) - age * log2(fading): so experts of one layer compare rightly however much time has passed.
void SlotPool::warm(ExpertKey key, float worth) {
  double& warmth = warmth_[index(key)];
  const double faded = static_cast<double>(layer_age_[key.layer - first_layer_]) * log2_of_fading;
  const double sum = std::exp2(warmth + faded) + static_cast<double>(worth);
  warmth = sum > 0 ? std::log2(sum) - faded : cold;
}

void SlotPool::set_guesses(std::span<const ExpertKey> keys) {
  for (const ExpertKey key : guesses_) likely_[index(key)] = false;
  guesses_.assign(keys.begin(), keys.end());
  for (const ExpertKey key : guesses_) likely_[index(key)] = true;
  first_guess_ = 0;
}

std::optional<ExpertKey> SlotPool::next_guess() {
  while (first_guess_ < guesses_.size() && slot_of_[index(guesses_[first_guess_])] != kNone) ++first_guess_;
  return first_guess_ < guesses_.size() ? std::optional(guesses_[first_guess_]) : std::nullopt;
}

std::optional<ExpertKey> SlotPool::next_wish() {
  while (first_wish_ < wishes_.size() && wish_of_[index(wishes_[first_wish_])] == 0) ++first_wish_;
  for (std::size_t i = first_wish_; i < wishes_.size(); ++i) {
    const std::size_t at = index(wishes_[i]);
    if (wish_of_[at] != 0 && slot_of_[at] == kNone) return wishes_[i];
  }
  return std::nullopt;
}

// Of two slots of one layer.
bool SlotPool::colder(std::uint32_t slot, std::uint32_t than) const {
  const double warmth = warmth_[index(slots_[slot].key)], other = warmth_[index(slots_[than].key)];
  return warmth != other ? warmth < other : slots_[slot].used < slots_[than].used;
}

std::uint32_t SlotPool::coldest_of_layer(std::uint32_t layer, Urgency urgency) const {
  std::uint32_t coldest = kNone;
  for (const std::uint32_t slot : held_[layer]) {
    if (slots_[slot].state != State::ready || slots_[slot].guessed || wish(slot) != 0) continue;
    if (urgency == Urgency::guess && likely_[index(slots_[slot].key)]) continue;
    if (coldest == kNone || colder(slot, coldest)) coldest = slot;
  }
  return coldest;
}

// The coldest of the layer that is furthest over its share. A token visits all layers in turn, so plain recency over all of them
// would always throw out just what comes next. The asking layer counts as one more, and wins ties: a layer at its share replaces
// its own.
std::uint32_t SlotPool::unneeded(std::uint32_t for_layer, Urgency urgency) const {
  std::uint32_t victim = coldest_of_layer(for_layer, urgency);
  std::size_t most = victim == kNone ? 0 : held_[for_layer].size() + 1;
  for (std::uint32_t layer = 0; layer < held_.size(); ++layer) {
    const std::size_t holds = held_[layer].size();
    if (layer == for_layer || holds == 0 || holds < most) continue;
    const std::uint32_t coldest = coldest_of_layer(layer, urgency);
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
