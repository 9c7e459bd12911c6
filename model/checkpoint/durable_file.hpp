// A file that is there whole or not at all, whatever happens while it is written.
#pragma once

#include <string_view>

#include "model/checkpoint/file_io.hpp"

namespace k3::checkpoint {

// Bytes go to PATH.partial, which commit() gives its name. An earlier partial file is overwritten; one that another process is
// writing is an error. Without commit() the partial file is removed when the object goes; after a kill it stays until the next
// attempt.
class DurableFile {
 public:
  enum class Contention { refuse, wait };
  static Result<DurableFile> create(const std::filesystem::path& path, Contention contention = Contention::refuse);
  static std::filesystem::path partial(const std::filesystem::path& path);
  DurableFile(DurableFile&& other) noexcept;
  DurableFile& operator=(DurableFile&&) = delete;
  ~DurableFile();

  // Appends. Errors name the partial file, a full drive among them.
  Result<void> write(const void* source, std::uint64_t bytes);
  // Writes over bytes that were appended before.
  Result<void> overwrite(const void* source, std::uint64_t bytes, std::uint64_t offset);
  // On the drive first, then under its name: afterwards no loss of power undoes it.
  Result<void> commit();

 private:
  DurableFile(FileHandle file, std::filesystem::path path) : file_(std::move(file)), path_(std::move(path)) {}

  FileHandle file_;
  std::filesystem::path path_;
  std::uint64_t written_ = 0, handed_over_ = 0;
};

// A small file; two processes that write the same one do so one after the other.
Result<void> write_durably(const std::filesystem::path& path, std::string_view text);

}  // namespace k3::checkpoint
