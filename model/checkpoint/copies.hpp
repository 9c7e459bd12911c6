// A shard may lie in several directories, each on a drive of its own: reads take what is there, and go on when one copy fails them.
#pragma once

#include <string>
#include <vector>

#include "model/checkpoint/checkpoint.hpp"
#include "model/checkpoint/file_io.hpp"

namespace k3::checkpoint {

// All of a file's copies, the first one included.
std::vector<Copy> copies_of(const File& file);
// Each copy as a file of its own.
std::vector<File> one_by_one(const std::vector<File>& files);

// Reads of one file, from the copy that served last; when that fails, from the next one. For small reads: large ones are spread by
// pieces.hpp and by the experts' streams.
class AnyCopy {
 public:
  AnyCopy() = default;
  explicit AnyCopy(const File& file) : copies_(copies_of(file)) {}

  bool given() const { return !copies_.empty(); }
  int fd() const { return handle_.fd(); }  // to give the kernel hints about; -1: nothing was read yet
  // Exactly `bytes`. The error is that of the copy that was tried first; the others were tried too.
  Result<void> read(void* to, std::uint64_t bytes, std::uint64_t offset);

 private:
  Result<void> read_current(void* to, std::uint64_t bytes, std::uint64_t offset);

  std::vector<Copy> copies_;
  std::size_t current_ = 0;
  FileHandle handle_;
};

}  // namespace k3::checkpoint
