#include "model/checkpoint/durable_file.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

namespace k3::checkpoint {
namespace {

// The drive is kept busy from early on: left alone, the kernel gathers gigabytes and commit() waits for all of them.
constexpr std::uint64_t hand_over_bytes = 64U << 20;

Error system_error(const char* what, const std::filesystem::path& path) {
  const int number = errno;
  return Error{
      .code = ErrorCode::io, .message = std::string(what) + ": " + std::generic_category().message(number), .file = path.string()};
}

int open_retrying(const std::filesystem::path& path, int flags) {
  int fd = -1;
  do {
    fd = ::open(path.c_str(), flags | O_CLOEXEC, 0644);
  } while (fd < 0 && errno == EINTR);
  return fd;
}

bool same_file(int fd, const std::filesystem::path& path) {
  struct stat opened {
  }, named{};
  return ::fstat(fd, &opened) == 0 && ::stat(path.c_str(), &named) == 0 && opened.st_ino == named.st_ino &&
         opened.st_dev == named.st_dev;
}

Result<FileHandle> open_locked(const std::filesystem::path& path, bool wait) {
  while (true) {
    FileHandle file(open_retrying(path, O_WRONLY | O_CREAT));
    if (file.fd() < 0) return system_error("cannot create", path);
    if (::flock(file.fd(), LOCK_EX | (wait ? 0 : LOCK_NB)) != 0) {
      if (errno == EINTR) continue;
      if (errno != EWOULDBLOCK) return system_error("cannot lock", path);
      return Error{.code = ErrorCode::overloaded, .message = "another process is writing this file", .file = path.string()};
    }
    // Between opening and locking the other may have finished and renamed it: then this would be its good file.
    if (!same_file(file.fd(), path)) continue;
    if (::ftruncate(file.fd(), 0) != 0) return system_error("cannot empty", path);
    return file;
  }
}

Result<void> sync_directory(const std::filesystem::path& path) {
  const FileHandle directory(open_retrying(path, O_RDONLY | O_DIRECTORY));
  // Some file systems have no such thing as synchronising a directory.
  if (directory.fd() < 0 || (::fsync(directory.fd()) != 0 && errno != EINVAL)) return system_error("cannot synchronise", path);
  return {};
}

}  // namespace

std::filesystem::path DurableFile::partial(const std::filesystem::path& path) { return path.string() + ".partial"; }

Result<DurableFile> DurableFile::create(const std::filesystem::path& path, Contention contention) {
  auto file = open_locked(partial(path), contention == Contention::wait);
  if (!file) return file.error();
  return DurableFile(std::move(*file), path);
}

DurableFile::DurableFile(DurableFile&& other) noexcept
    : file_(std::move(other.file_)), path_(std::move(other.path_)), written_(other.written_), handed_over_(other.handed_over_) {}

DurableFile::~DurableFile() {
  if (file_.fd() >= 0) ::unlink(partial(path_).c_str());
}

Result<void> DurableFile::write(const void* source, std::uint64_t bytes) {
  auto done = file_.write(source, bytes, partial(path_).string());
  if (!done) return done;
  written_ += bytes;
  if (written_ - handed_over_ >= hand_over_bytes) {
    // Starts the writing and waits for none of it; where it is refused, commit() does all.
    ::sync_file_range(file_.fd(), static_cast<off_t>(handed_over_), static_cast<off_t>(written_ - handed_over_),
                      SYNC_FILE_RANGE_WRITE);
    handed_over_ = written_;
  }
  return {};
}

Result<void> DurableFile::overwrite(const void* source, std::uint64_t bytes, std::uint64_t offset) {
  const auto* from = static_cast<const char*>(source);
  while (bytes > 0) {
    const auto put = ::pwrite(file_.fd(), from, bytes, static_cast<off_t>(offset));
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return system_error("cannot write", partial(path_));
    from += put;
    offset += static_cast<std::uint64_t>(put);
    bytes -= static_cast<std::uint64_t>(put);
  }
  return {};
}

Result<void> DurableFile::commit() {
  if (::fsync(file_.fd()) != 0) return system_error("cannot finish writing", partial(path_));
  // Out of the page cache, so that whoever reads it next, to compare, reads the drive.
  ::posix_fadvise(file_.fd(), 0, 0, POSIX_FADV_DONTNEED);
  if (::rename(partial(path_).c_str(), path_.c_str()) != 0) return system_error("cannot rename", partial(path_));
  auto closed = file_.close(path_.string());
  return closed ? sync_directory(path_.parent_path()) : closed;
}

Result<void> write_durably(const std::filesystem::path& path, std::string_view text) {
  auto file = DurableFile::create(path, DurableFile::Contention::wait);
  if (!file) return file.error();
  auto done = file->write(text.data(), text.size());
  return done ? file->commit() : done;
}

}  // namespace k3::checkpoint
