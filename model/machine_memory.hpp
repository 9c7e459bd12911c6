// What the machine has, and what this process has of it.
#pragma once

#include <cstdint>

namespace k3 {

// Bytes this process may still take: MemAvailable, lowered by what the cgroup (and each of its ancestors) leaves. 0: cannot be
// told.
std::uint64_t available_memory();

// Bytes this process holds: RssAnon + RssShmem. Mapped files do not count, the system takes those pages back when it likes.
std::uint64_t own_memory();

}  // namespace k3
