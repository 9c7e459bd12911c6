// One anonymous mapping for all slots: page-aligned for direct reads, huge pages where the kernel has them to give.
#pragma once

#include <sys/mman.h>

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <utility>

#include "model/error.hpp"

namespace k3::experts {

class SlotMemory {
 public:
  static Result<SlotMemory> make(std::size_t bytes) {
    void* data = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (data == MAP_FAILED) {
      return fail(ErrorCode::out_of_memory,
                  "cannot map " + std::to_string(bytes) + " bytes of expert slots: " + std::strerror(errno));
    }
    ::madvise(data, bytes, MADV_HUGEPAGE);  // a refusal costs speed only
    SlotMemory memory;
    memory.data_ = static_cast<std::byte*>(data);
    memory.bytes_ = bytes;
    return memory;
  }
  SlotMemory() = default;
  SlotMemory(SlotMemory&& other) noexcept : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
  SlotMemory& operator=(SlotMemory&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~SlotMemory() {
    if (data_ != nullptr) ::munmap(data_, bytes_);
  }
  std::byte* data() const { return data_; }

 private:
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace k3::experts
