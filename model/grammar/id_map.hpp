// A hash table from 64-bit keys to 32-bit values, in one block of memory: what the state cache looks up for every byte of every
// token.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace k3::grammar {

inline std::uint64_t scatter(std::uint64_t x) {
  x *= 0x9e3779b97f4a7c15ULL;
  x ^= x >> 32;
  x *= 0xd6e8feb86659fd93ULL;
  return x ^ (x >> 29);
}

class IdMap {
 public:
  static constexpr std::uint32_t none = 0xffffffff;

  std::uint32_t find(std::uint64_t key) const {
    if (slots_.empty()) return none;
    for (std::size_t i = scatter(key) & mask();; i = (i + 1) & mask()) {
      if (slots_[i].value == none) return none;
      if (slots_[i].key == key) return slots_[i].value;
    }
  }

  // The key must be new, and the value not `none`.
  void insert(std::uint64_t key, std::uint32_t value) {
    if (slots_.empty() || size_ * 2 >= slots_.size()) grow();
    place({key, value});
    ++size_;
  }

  // New or not.
  void set(std::uint64_t key, std::uint32_t value) {
    if (!slots_.empty()) {
      for (std::size_t i = scatter(key) & mask(); slots_[i].value != none; i = (i + 1) & mask()) {
        if (slots_[i].key != key) continue;
        slots_[i].value = value;
        return;
      }
    }
    insert(key, value);
  }

  void clear() {
    slots_.clear();
    size_ = 0;
  }

  std::size_t bytes() const { return slots_.size() * sizeof(Slot); }

 private:
  struct Slot {
    std::uint64_t key = 0;
    std::uint32_t value = none;
  };
  std::size_t mask() const { return slots_.size() - 1; }

  void place(const Slot& slot) {
    std::size_t i = scatter(slot.key) & mask();
    while (slots_[i].value != none) i = (i + 1) & mask();
    slots_[i] = slot;
  }

  void grow() {
    std::vector<Slot> old(slots_.empty() ? 1024 : slots_.size() * 2);
    old.swap(slots_);
    for (const Slot& slot : old) {
      if (slot.value != none) place(slot);
    }
  }

  std::vector<Slot> slots_;
  std::size_t size_ = 0;
};

}  // namespace k3::grammar
