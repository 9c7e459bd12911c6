// Caches of one layer's experts, as simple as their papers: to compare with.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <list>
#include <unordered_map>
#include <vector>

namespace k3 {

// Least recently used.
class LruCache {
 public:
  explicit LruCache(std::size_t capacity) : capacity_(capacity) {}
  bool holds(std::uint32_t expert) const { return at_.contains(expert); }
  void access(std::uint32_t expert);

 private:
  std::size_t capacity_;
  std::list<std::uint32_t> order_;  // the most recent first
  std::unordered_map<std::uint32_t, std::list<std::uint32_t>::iterator> at_;
};

// Least frequently used; all counts are halved now and then, so that old favourites are forgotten.
class LfuCache {
 public:
  explicit LfuCache(std::size_t capacity) : capacity_(capacity) {}
  bool holds(std::uint32_t expert) const { return held_.contains(expert); }
  void access(std::uint32_t expert);

 private:
  struct Use {
    double count = 0;
    std::uint64_t last = 0;
  };
  std::size_t capacity_;
  std::uint64_t clock_ = 0;
  std::unordered_map<std::uint32_t, Use> held_;
};

// S3-FIFO (Yang et al., 2023): newcomers prove themselves in a small queue; those who do not are only remembered.
class S3FifoCache {
 public:
  explicit S3FifoCache(std::size_t capacity) : capacity_(capacity), small_capacity_((capacity + 9) / 10) {}
  bool holds(std::uint32_t expert) const { return uses_.contains(expert); }
  void access(std::uint32_t expert);

 private:
  void evict();
  bool evict_small();
  bool evict_main();

  std::size_t capacity_, small_capacity_;
  std::deque<std::uint32_t> small_, main_, ghosts_;   // the oldest first
  std::unordered_map<std::uint32_t, unsigned> uses_;  // of those held, since they came, at most 3
};

// ARC (Megiddo and Modha, 2003): recent and frequent ones share the room by which of the two was regretted lately.
class ArcCache {
 public:
  explicit ArcCache(std::size_t capacity) : capacity_(capacity) {}
  bool holds(std::uint32_t expert) const;
  void access(std::uint32_t expert);

 private:
  using Queue = std::list<std::uint32_t>;  // the most recent first
  void replace(bool in_frequent_ghosts);

  std::size_t capacity_;
  double target_ = 0;  // for recent_
  Queue recent_, frequent_, recent_ghosts_, frequent_ghosts_;
};

}  // namespace k3
