#include "model/checkpoint/file_io.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>

namespace k3::checkpoint {
namespace {

// Linux moves at most 0x7ffff000 bytes a call; a rounder number below keeps offsets aligned.
constexpr std::uint64_t bytes_a_call = std::uint64_t{1} << 30;

Error system_error(std::string what, const std::string& name) {
  const int number = errno;
  const ErrorCode code = number == ENOENT ? ErrorCode::not_found : number == ENOMEM ? ErrorCode::out_of_memory : ErrorCode::io;
  return Error{.code = code, .message = std::move(what) + ": " + std::generic_category().message(number), .file = name};
}

Result<FileHandle> open_with(const std::filesystem::path& path, int flags) {
  int fd = -1;
  do {
    fd = ::open(path.c_str(), flags | O_CLOEXEC, 0644);
  } while (fd < 0 && errno == EINTR);
  if (fd < 0) return system_error("cannot open", path.string());
  return FileHandle(fd);
}

}  // namespace

FileHandle::~FileHandle() {
  if (fd_ >= 0) ::close(fd_);
}

Result<FileHandle> FileHandle::open(const std::filesystem::path& path) {
  auto handle = open_with(path, O_RDONLY);
  if (!handle) return handle;
  struct stat status {};
  if (::fstat(handle->fd(), &status) != 0) return system_error("cannot stat", path.string());
  // A directory opens without complaint and only fails at the first read.
  if (!S_ISREG(status.st_mode))
    return Error{.code = ErrorCode::invalid_argument, .message = "not a regular file", .file = path.string()};
  return handle;
}

Result<FileHandle> FileHandle::create(const std::filesystem::path& path) { return open_with(path, O_WRONLY | O_CREAT | O_EXCL); }

Result<std::uint64_t> FileHandle::size(const std::string& name) const {
  struct stat status {};
  if (::fstat(fd_, &status) != 0) return system_error("cannot stat", name);
  return static_cast<std::uint64_t>(status.st_size);
}

Result<void> FileHandle::read(void* destination, std::uint64_t bytes, std::uint64_t offset, const std::string& name) const {
  auto* to = static_cast<char*>(destination);
  std::uint64_t done = 0;
  while (done < bytes) {
    const auto got = ::pread(fd_, to + done, std::min(bytes - done, bytes_a_call), static_cast<off_t>(offset + done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) {
      Error error = system_error("cannot read", name);
      error.offset = static_cast<std::int64_t>(offset + done);
      return error;
    }
    if (got == 0) {
      return Error{.code = ErrorCode::corrupt,
                   .message = "the file ends early",
                   .file = name,
                   .offset = static_cast<std::int64_t>(offset),
                   .expected = std::to_string(bytes) + " bytes",
                   .got = std::to_string(done)};
    }
    done += static_cast<std::uint64_t>(got);
  }
  return {};
}

Result<void> FileHandle::write(const void* source, std::uint64_t bytes, const std::string& name) const {
  const auto* from = static_cast<const char*>(source);
  std::uint64_t done = 0;
  while (done < bytes) {
    const auto put = ::write(fd_, from + done, std::min(bytes - done, bytes_a_call));
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return system_error("cannot write", name);
    done += static_cast<std::uint64_t>(put);
  }
  return {};
}

Result<void> FileHandle::close(const std::string& name) {
  // The descriptor is gone whatever close() answers, so it is never closed twice.
  const int fd = std::exchange(fd_, -1);
  if (fd >= 0 && ::close(fd) != 0 && errno != EINTR) return system_error("cannot finish writing", name);
  return {};
}

Result<TextFile> read_text_file(const std::filesystem::path& path, std::uint64_t limit, std::size_t padding) {
  auto handle = FileHandle::open(path);
  if (!handle) return handle.error();
  const auto size = handle->size(path.string());
  if (!size) return size.error();
  if (*size > limit) {
    return Error{.code = ErrorCode::corrupt,
                 .message = "file is larger than anything that belongs here",
                 .file = path.string(),
                 .expected = "at most " + std::to_string(limit) + " bytes",
                 .got = std::to_string(*size)};
  }
  TextFile text;
  text.size = static_cast<std::size_t>(*size);
  text.bytes.resize(text.size + padding);
  const auto done = handle->read(text.bytes.data(), *size, 0, path.string());
  if (!done) return done.error();
  return text;
}

}  // namespace k3::checkpoint
