#include "model/experts/files.hpp"

#include <fcntl.h>
#include <spdlog/spdlog.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "model/checkpoint/copies.hpp"
#include "model/experts/slot_memory.hpp"
#include "model/experts/windows.hpp"

namespace k3::experts {

namespace {

// The kernel says what a direct read must be aligned to, where it is new enough to be asked. 0: no direct reads; -1: it does not
// say.
long stated_alignment([[maybe_unused]] int fd) {
#ifdef STATX_DIOALIGN
  struct statx info {};
  if (::statx(fd, "", AT_EMPTY_PATH, STATX_DIOALIGN, &info) == 0 && (info.stx_mask & STATX_DIOALIGN) != 0) {
    return static_cast<long>(std::max(info.stx_dio_offset_align, info.stx_dio_mem_align));
  }
#endif
  return -1;
}

// Some file systems accept the flag and refuse the read, so one is made.
bool direct_read_works(int fd) {
  const long alignment = stated_alignment(fd);
  if (alignment == 0 || (alignment > 0 && kAlignment % static_cast<std::size_t>(alignment) != 0)) return false;
  const auto page = SlotMemory::make(kAlignment);
  if (!page) return false;
  ssize_t n = 0;
  do {
    n = ::pread(fd, page->data(), kAlignment, 0);
  } while (n < 0 && errno == EINTR);
  return n >= 0 || errno != EINVAL;  // another error is the disk's, and will be reported with the read it spoils
}

Descriptor open_one(const std::filesystem::path& path, int flags) {
  int fd = -1;
  do {
    fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | flags);
  } while (fd < 0 && errno == EINTR);
  return Descriptor(fd);
}

}  // namespace

namespace {

Result<void> open_copy(const checkpoint::Copy& copy, bool direct, OpenFiles& open) {
  Descriptor descriptor;
  if (direct) descriptor = open_one(copy.path, O_DIRECT);
  const bool refused = direct && !(descriptor && direct_read_works(descriptor.get()));
  if (!direct || refused) descriptor = open_one(copy.path, 0);
  if (!descriptor) {
    Error error = fail(ErrorCode::io, std::string("cannot open: ") + std::strerror(errno));
    error.file = copy.path.string();
    return error;
  }
  if (refused && !open.buffered)
    spdlog::warn("{}: no direct reads here, expert reads go through the page cache", copy.path.string());
  open.buffered |= refused;
  open.fds.push_back(descriptor.get());
  open.descriptors.push_back(std::move(descriptor));
  open.paths.push_back(copy.path.string());
  open.drives.push_back(copy.drive);
  return {};
}

}  // namespace

Result<OpenFiles> open_files(const std::vector<checkpoint::File>& files, bool direct) {
  OpenFiles open;
  for (const checkpoint::File& file : files) {
    std::vector<Error> refused;
    for (const checkpoint::Copy& copy : checkpoint::copies_of(file)) {
      if (const auto opened = open_copy(copy, direct, open); !opened) refused.push_back(opened.error());
    }
    const auto copies = static_cast<std::uint32_t>(open.fds.size());
    if (copies == open.first.back()) return refused.front();
    for (const Error& error : refused) spdlog::warn("{}: another copy is read instead", error.describe());
    open.first.push_back(copies);
  }
  return open;
}

}  // namespace k3::experts
