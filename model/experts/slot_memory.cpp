#include "model/experts/slot_memory.hpp"

#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>

namespace k3::experts {

namespace {

// Since Linux 5.14; the C library of Debian 12 has the name, older ones do not.
constexpr int populate_write = 23;
// While pages are handed out, nobody else in the process may map or unmap, and leaving waits too: so one huge page at a time, and
// not by a thread that hardly ever runs.
constexpr std::size_t step = std::size_t{2} << 20;
constexpr int niceness = 10;

// Touching the pages would do too, but not while reads may be writing into them.
void fill(const std::stop_token& stop, std::byte* data, std::size_t bytes) {
  ::setpriority(PRIO_PROCESS, static_cast<id_t>(::gettid()), niceness);
  for (std::size_t done = 0; done < bytes && !stop.stop_requested();) {
    const std::size_t part = std::min(step, bytes - done);
    if (::madvise(data + done, part, populate_write) == 0) {
      done += part;
    } else if (errno != EINTR && errno != EAGAIN) {
      return;  // an old kernel, or no memory: then pages come when they are needed
    }
  }
}

}  // namespace

Result<SlotMemory> SlotMemory::make(std::size_t bytes) {
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

SlotMemory::~SlotMemory() {
  filler_ = {};  // stops and joins it
  if (data_ != nullptr) ::munmap(data_, bytes_);
}

void SlotMemory::populate() {
  filler_ = std::jthread([data = data_, bytes = bytes_](const std::stop_token& stop) { fill(stop, data, bytes); });
}

void SlotMemory::await_populated() {
  if (filler_.joinable()) filler_.join();
}

}  // namespace k3::experts
