#include "model/checkpoint/copies.hpp"

namespace k3::checkpoint {

std::vector<Copy> copies_of(const File& file) {
  std::vector<Copy> copies{{file.path, file.drive}};
  copies.insert(copies.end(), file.more.begin(), file.more.end());
  return copies;
}

std::vector<File> one_by_one(const std::vector<File>& files) {
  std::vector<File> out;
  for (const File& file : files) {
    for (const Copy& copy : copies_of(file)) out.push_back({copy.path, file.bytes, copy.drive});
  }
  return out;
}

Result<void> AnyCopy::read_current(void* to, std::uint64_t bytes, std::uint64_t offset) {
  const std::filesystem::path& path = copies_[current_].path;
  if (handle_.fd() < 0) {
    auto opened = FileHandle::open(path);
    if (!opened) return opened.error();
    handle_ = std::move(*opened);
  }
  return handle_.read(to, bytes, offset, path.string());
}

Result<void> AnyCopy::read(void* to, std::uint64_t bytes, std::uint64_t offset) {
  Result<void> first;
  for (std::size_t tried = 0; tried < copies_.size(); ++tried) {
    auto done = read_current(to, bytes, offset);
    if (done) return done;
    if (tried == 0) first = done;
    handle_ = FileHandle();
    current_ = (current_ + 1) % copies_.size();
  }
  return first;
}

}  // namespace k3::checkpoint
