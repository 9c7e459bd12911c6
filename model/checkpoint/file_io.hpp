// A file descriptor that closes itself, and reads that finish.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>

#include "model/error.hpp"

namespace k3::checkpoint {

class FileHandle {
 public:
  FileHandle() = default;
  explicit FileHandle(int fd) : fd_(fd) {}
  FileHandle(FileHandle&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  FileHandle& operator=(FileHandle&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~FileHandle();

  // Opens a regular file for reading; the error's code is not_found when there is none.
  static Result<FileHandle> open(const std::filesystem::path& path);
  // Opens a file that must not exist yet for writing.
  static Result<FileHandle> create(const std::filesystem::path& path);

  int fd() const { return fd_; }
  Result<std::uint64_t> size(const std::string& name) const;
  // Reads exactly `bytes`: short reads go on, EINTR is retried, the end of the file is an error of code corrupt.
  Result<void> read(void* destination, std::uint64_t bytes, std::uint64_t offset, const std::string& name) const;
  // Appends all of it, or says what the operating system said (a full disk among others).
  Result<void> write(const void* source, std::uint64_t bytes, const std::string& name) const;
  // Closes and reports what a late write error has to say.
  Result<void> close(const std::string& name);

 private:
  int fd_ = -1;
};

// The whole of a small text file. `padding` zero bytes follow the content (what simdjson asks for); they do not count in `size`.
struct TextFile {
  std::string bytes;
  std::size_t size = 0;
};
Result<TextFile> read_text_file(const std::filesystem::path& path, std::uint64_t limit, std::size_t padding);

}  // namespace k3::checkpoint
