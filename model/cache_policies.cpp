#include "model/cache_policies.hpp"

#include <algorithm>

namespace k3 {

namespace {

bool contains(const std::list<std::uint32_t>& list, std::uint32_t expert) {
  return std::find(list.begin(), list.end(), expert) != list.end();
}

}  // namespace

void LruCache::access(std::uint32_t expert) {
  if (const auto held = at_.find(expert); held != at_.end()) order_.erase(held->second);
  order_.push_front(expert);
  at_[expert] = order_.begin();
  if (order_.size() <= capacity_) return;
  at_.erase(order_.back());
  order_.pop_back();
}

void LfuCache::access(std::uint32_t expert) {
  constexpr std::uint64_t ageing = 128;  // accesses: eight tokens of sixteen experts
  if (++clock_ % ageing == 0) {
    for (auto& [held, use] : held_) use.count /= 2;
  }
  Use& use = held_[expert];
  use.count += 1;
  use.last = clock_;
  if (held_.size() <= capacity_) return;
  auto victim = held_.end();
  for (auto it = held_.begin(); it != held_.end(); ++it) {
    if (it->first == expert && capacity_ > 0) continue;
    const auto rarer = [](const Use& a, const Use& b) { return a.count != b.count ? a.count < b.count : a.last < b.last; };
    if (victim == held_.end() || rarer(it->second, victim->second)) victim = it;
  }
  held_.erase(victim);
}

void S3FifoCache::access(std::uint32_t expert) {
  if (capacity_ == 0) return;
  if (const auto held = uses_.find(expert); held != uses_.end()) {
    held->second = std::min(held->second + 1, 3U);
    return;
  }
  while (uses_.size() >= capacity_) evict();
  const auto ghost = std::find(ghosts_.begin(), ghosts_.end(), expert);
  if (ghost != ghosts_.end()) {
    ghosts_.erase(ghost);
    main_.push_back(expert);
  } else {
    small_.push_back(expert);
  }
  uses_[expert] = 0;
}

void S3FifoCache::evict() {
  if (small_.size() >= small_capacity_ && evict_small()) return;
  if (evict_main()) return;
  evict_small();
}

// True once one is gone.
bool S3FifoCache::evict_small() {
  while (!small_.empty()) {
    const std::uint32_t expert = small_.front();
    small_.pop_front();
    if (uses_[expert] > 0) {
      uses_[expert] = 0;
      main_.push_back(expert);
      continue;
    }
    uses_.erase(expert);
    ghosts_.push_back(expert);
    if (ghosts_.size() > capacity_) ghosts_.pop_front();
    return true;
  }
  return false;
}

bool S3FifoCache::evict_main() {
  while (!main_.empty()) {
    const std::uint32_t expert = main_.front();
    main_.pop_front();
    if (uses_[expert] > 0) {
      --uses_[expert];
      main_.push_back(expert);
      continue;
    }
    uses_.erase(expert);
    return true;
  }
  return false;
}

bool ArcCache::holds(std::uint32_t expert) const { return contains(recent_, expert) || contains(frequent_, expert); }

void ArcCache::replace(bool in_frequent_ghosts) {
  const auto size = static_cast<double>(recent_.size());
  const bool from_recent = !recent_.empty() && (size > target_ || (in_frequent_ghosts && size == target_));
  Queue& from = from_recent || frequent_.empty() ? recent_ : frequent_;
  Queue& to = &from == &recent_ ? recent_ghosts_ : frequent_ghosts_;
  if (from.empty()) return;
  to.push_front(from.back());
  from.pop_back();
}

void ArcCache::access(std::uint32_t expert) {
  if (capacity_ == 0) return;
  const auto most = static_cast<double>(capacity_);
  const auto ratio = [](const Queue& of, const Queue& to) {
    return std::max(1.0, static_cast<double>(of.size()) / static_cast<double>(to.size()));
  };
  if (holds(expert)) {
    recent_.remove(expert);
    frequent_.remove(expert);
    frequent_.push_front(expert);
    return;
  }
  const bool was_recent = contains(recent_ghosts_, expert), was_frequent = contains(frequent_ghosts_, expert);
  if (was_recent) target_ = std::min(most, target_ + ratio(frequent_ghosts_, recent_ghosts_));
  if (was_frequent) target_ = std::max(0.0, target_ - ratio(recent_ghosts_, frequent_ghosts_));
  if (was_recent || was_frequent) {
    if (recent_.size() + frequent_.size() >= capacity_) replace(was_frequent);
    recent_ghosts_.remove(expert);
    frequent_ghosts_.remove(expert);
    frequent_.push_front(expert);
    return;
  }
  if (recent_.size() + recent_ghosts_.size() >= capacity_) {
    if (recent_.size() < capacity_) {
      recent_ghosts_.pop_back();
    } else {
      recent_.pop_back();
    }
  }
  const std::size_t all = recent_.size() + frequent_.size() + recent_ghosts_.size() + frequent_ghosts_.size();
  if (all >= 2 * capacity_ && !frequent_ghosts_.empty()) frequent_ghosts_.pop_back();
  if (recent_.size() + frequent_.size() >= capacity_) replace(false);
  recent_.push_front(expert);
}

}  // namespace k3
