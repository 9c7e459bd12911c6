// One anonymous mapping for all slots: page-aligned for direct reads, huge pages where the kernel has them to give.
#pragma once

#include <cstddef>
#include <thread>
#include <utility>

#include "model/error.hpp"

namespace k3::experts {

class SlotMemory {
 public:
  static Result<SlotMemory> make(std::size_t bytes);
  SlotMemory() = default;
  SlotMemory(SlotMemory&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)), filler_(std::move(other.filler_)) {}
  SlotMemory& operator=(SlotMemory&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    std::swap(filler_, other.filler_);
    return *this;
  }
  ~SlotMemory();

  // The kernel hands out pages, zeroed, when they are first touched: for a slot that is 17 MB in the middle of a token. From now on
  // a thread of low priority has them handed out beforehand, from the front.
  void populate();
  // Until it has done so.
  void await_populated();

  std::byte* data() const { return data_; }

 private:
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
  std::jthread filler_;
};

}  // namespace k3::experts
