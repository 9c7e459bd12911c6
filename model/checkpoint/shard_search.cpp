#include "model/checkpoint/shard_search.hpp"

#include <algorithm>
#include <optional>

#include "model/checkpoint/copies.hpp"

namespace k3::checkpoint {

namespace fs = std::filesystem;

namespace {

bool same(const fs::path& a, const fs::path& b) {
  std::error_code ignored;
  return fs::equivalent(a, b, ignored);
}

Error about(const fs::path& path, ErrorCode code, std::string message) {
  return Error{.code = code, .message = std::move(message), .file = path.string()};
}

// Of two whole files that are not alike. Which one is right cannot be told from here, and a model made of both would answer
// nonsense now and then.
Error difference(const fs::path& first, const HeaderText& a, const fs::path& second, const HeaderText& b) {
  if (a.file_bytes == b.file_bytes) {
    return about(second, ErrorCode::corrupt, "this and " + first.string() + " should be copies and their headers differ");
  }
  Error error = about(second, ErrorCode::corrupt, "this and " + first.string() + " should be copies and differ in size");
  error.expected = std::to_string(a.file_bytes) + " bytes";
  error.got = std::to_string(b.file_bytes);
  return error;
}

}  // namespace

Result<ShardSearch> ShardSearch::make(const fs::path& own, std::span<const fs::path> others) {
  ShardSearch search;
  search.directories_.push_back(own);
  for (std::size_t i = 0; i < others.size(); ++i) {
    std::error_code ignored;
    if (!fs::is_directory(others[i], ignored)) {
      return about(others[i], ErrorCode::not_found, "this directory, in which shards may lie, is not there");
    }
    if (same(others[i], own)) continue;
    for (std::size_t before = 0; before < i; ++before) {
      if (!same(others[i], others[before])) continue;
      return about(others[i], ErrorCode::invalid_argument,
                   "this directory is named twice, the first time as " + others[before].string());
    }
    search.directories_.push_back(others[i]);
  }
  if (search.directories_.size() > most_directories) {
    Error error = fail(ErrorCode::invalid_argument, "shards may lie in so many directories and no more");
    error.expected = "at most " + std::to_string(most_directories);
    error.got = std::to_string(search.directories_.size());
    return error;
  }
  search.useful_.resize(search.directories_.size());
  return search;
}

std::uint32_t ShardSearch::drive_of(const fs::path& file) {
  std::error_code failed;
  fs::path real = fs::canonical(file, failed);
  if (failed) real = file;
  const fs::path drive = real.parent_path();
  const auto known = std::find(drives_.begin(), drives_.end(), drive);
  const auto number = static_cast<std::uint32_t>(known - drives_.begin());
  if (known == drives_.end()) drives_.push_back(drive);
  return number;
}

Result<FoundShard> ShardSearch::find(const std::string& shard) {
  std::optional<HeaderText> good;
  FoundShard found;
  std::vector<Error> faults;
  for (std::size_t i = 0; i < directories_.size(); ++i) {
    const fs::path path = directories_[i] / shard;
    auto text = read_header_text(path);
    if (!text && text.error().code == ErrorCode::not_found) continue;
    useful_[i] = true;
    if (!text) {
      faults.push_back(text.error());
      continue;
    }
    if (good && good->file_bytes == text->file_bytes && good->json == text->json) {
      add_copy(found.file, path);
      continue;
    }
    auto header = parse_header(text->json, text->file_bytes, path.string());
    if (!header) {
      faults.push_back(header.error());
      continue;
    }
    if (good) return difference(found.file.path, *good, path, *text);
    found = {{path, text->file_bytes, drive_of(path)}, std::move(*header)};
    good = std::move(*text);
  }
  if (good) {
    damaged_.insert(damaged_.end(), faults.begin(), faults.end());
    return found;
  }
  if (!faults.empty()) return faults.front();
  return fail(ErrorCode::not_found, directories_.size() == 1 ? "missing" : "missing in every directory");
}

void ShardSearch::add_copy(File& file, const fs::path& path) {
  // A link to a copy that is counted already is another name of one file on one drive.
  for (const Copy& copy : copies_of(file)) {
    if (same(copy.path, path)) return;
  }
  file.more.push_back({path, drive_of(path)});
}

std::vector<Error> ShardSearch::left_out() const {
  std::vector<Error> all = damaged_;
  for (std::size_t i = 1; i < directories_.size(); ++i) {  // the first may well hold no more than config.json
    if (!useful_[i]) all.push_back(about(directories_[i], ErrorCode::not_found, "no shard of the model lies in this directory"));
  }
  return all;
}

}  // namespace k3::checkpoint
