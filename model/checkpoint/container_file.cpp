#include "model/checkpoint/container_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "model/checkpoint/checksum.hpp"
#include "model/checkpoint/durable_file.hpp"
#include "model/checkpoint/header_text.hpp"

namespace k3::checkpoint {
namespace {

// A page, and what direct reads are aligned to.
constexpr std::size_t data_alignment = 4096;
constexpr const char* version_key = "k3.container";
constexpr const char* bits_key = "k3.bits";
constexpr const char* source_key = "k3.source";
constexpr const char* checksums_key = "k3.checksums";

}  // namespace

std::vector<std::uint64_t> checksums_in(const Header& header) {
  const std::string* text = header.find_metadata(checksums_key);
  if (text == nullptr || text->size() != header.tensors.size() * checksum_digits) return {};
  return parse_checksums(*text);
}

std::string describe(const TrunkPrecision& precision) {
  return fmt::format("{} {} {}", bits(precision.most), bits(precision.mla), bits(precision.head));
}

ContainerFile::ContainerFile(const std::filesystem::path& directory, const ContainerShard& shard, const TrunkPrecision& precision,
                             std::string identity)
    : path_(directory / shard.file), shard_(shard), precision_(describe(precision)), identity_(std::move(identity)) {
  const std::string zeros(shard.tensors.size() * checksum_digits, '0');
  // "format" is what the Python libraries ask for.
  const Metadata metadata = {
      {"format", "pt"}, {version_key, "1"}, {bits_key, precision_}, {source_key, identity_}, {checksums_key, zeros}};
  header_ = header_text(shard.tensors, metadata, data_alignment);
  const std::string before = std::string("\"") + checksums_key + "\":\"";
  checksums_at_ = header_.find(before) + before.size();
}

std::string ContainerFile::with_checksums(std::span<const std::uint64_t> checksums) const {
  std::string header = header_;
  const std::string text = checksum_text(checksums);
  return header.replace(checksums_at_, text.size(), text);
}

Result<bool> ContainerFile::finished() const {
  const auto file = FileHandle::open(path_);
  if (!file) return file.error().code == ErrorCode::not_found ? Result<bool>(false) : file.error();
  const auto size = file->size(path_.string());
  if (!size) return size.error();
  if (*size != bytes()) return replaceable();
  std::string header(header_.size(), '\0');
  auto done = file->read(header.data(), header.size(), 0, path_.string());
  if (!done) return done.error();
  std::fill_n(header.begin() + static_cast<std::ptrdiff_t>(checksums_at_), shard_.tensors.size() * checksum_digits, '0');
  return header == header_ ? Result<bool>(true) : replaceable();
}

// A file that is not the one that is wanted.
Result<bool> ContainerFile::replaceable() const {
  const auto refuse = [this](std::string message, std::string expected = {}, std::string got = {}) {
    return Error{.code = ErrorCode::invalid_argument,
                 .message = std::move(message) + "; nothing is overwritten: choose another directory or remove it",
                 .file = path_.string(),
                 .expected = std::move(expected),
                 .got = std::move(got)};
  };
  const auto header = read_header(path_);
  if (!header) return header.error().code == ErrorCode::corrupt ? Result<bool>(false) : header.error();
  if (header->find_metadata(version_key) == nullptr)
    return refuse("a file of this name is there already, which `k3 repack` did not write");
  const std::string* made_in = header->find_metadata(bits_key);
  if (made_in != nullptr && *made_in != precision_) return refuse("this shard was made in other bits", precision_, *made_in);
  const std::string* made_from = header->find_metadata(source_key);
  if (made_from != nullptr && *made_from != identity_) return refuse("this shard was made from another source");
  return false;
}

std::uint64_t ContainerFile::partial_bytes() const {
  std::error_code error;
  const auto bytes = std::filesystem::file_size(DurableFile::partial(path_), error);
  return error ? 0 : bytes;
}

Result<void> ContainerFile::write(ContainerBytes& source, const Advance& progress) const {
  auto file = DurableFile::create(path_);
  if (!file) return file.error();
  auto done = file->write(header_.data(), header_.size());
  if (!done) return done;
  std::vector<std::vector<std::uint64_t>> blocks(shard_.tensors.size());
  done = source.stream(shard_, [&](std::size_t tensor, std::uint64_t, std::span<const char> block) {
    blocks[tensor].push_back(xxh64(block.data(), block.size()));
    auto written = file->write(block.data(), block.size());
    if (written && progress) progress(block.size());
    return written;
  });
  if (!done) return done;
  std::vector<std::uint64_t> checksums;
  checksums.reserve(blocks.size());
  for (const auto& list : blocks) checksums.push_back(tensor_checksum(list));
  const std::string header = with_checksums(checksums);
  done = file->overwrite(header.data(), header.size(), 0);
  return done ? file->commit() : done;
}

Result<void> ContainerFile::compare(ContainerBytes& source, const Advance& progress) const {
  const auto file = FileHandle::open(path_);
  if (!file) return file.error();
  std::vector<char> buffer;
  std::size_t last = 0;
  std::uint64_t begin = header_.size();  // of tensor `last`, in the file
  return source.stream(shard_, [&](std::size_t tensor, std::uint64_t at, std::span<const char> block) -> Result<void> {
    for (; last < tensor; ++last) begin += shard_.tensors[last].bytes();
    buffer.resize(std::max(buffer.size(), block.size()));
    auto done = file->read(buffer.data(), block.size(), begin + at, path_.string());
    if (!done) return done;
    if (progress) progress(block.size());
    if (std::memcmp(buffer.data(), block.data(), block.size()) == 0) return {};
    const auto differs = std::mismatch(block.begin(), block.end(), buffer.begin()).first - block.begin();
    return Error{.code = ErrorCode::corrupt,
                 .message = "tensor " + shard_.tensors[tensor].name +
                            " is not what was written; remove this shard and run `k3 repack` again",
                 .file = path_.string(),
                 .offset = static_cast<std::int64_t>(begin + at) + differs};
  });
}

}  // namespace k3::checkpoint
