// A scratch copy of the tiny model that a test may damage.
#pragma once

#include <stdlib.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <string>

#include "model/checkpoint/checkpoint.hpp"
#include "model/checkpoint/safetensors.hpp"
#include "model/text/json.hpp"

namespace k3::test {

namespace fs = std::filesystem;

inline const fs::path tiny_model = fs::path(K3_TEST_DATA) / "tiny" / "model";

class TempDir {
 public:
  TempDir() {
    std::string pattern = (fs::temp_directory_path() / "k3-checkpoint-XXXXXX").string();
    if (::mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("mkdtemp failed");
    path_ = pattern;
  }
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;
  ~TempDir() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

inline std::string slurp(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  if (!in) throw std::runtime_error("cannot read " + path.string());
  return text.str();
}

inline void spill(const fs::path& path, const std::string& text) {
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  out << text;
  if (!out) throw std::runtime_error("cannot write " + path.string());
}

inline std::string shard_name(int number) {
  char name[64];
  std::snprintf(name, sizeof name, "model-%05d-of-000014.safetensors", number);
  return name;
}

class TinyCopy : public TempDir {
 public:
  TinyCopy() {
    for (const auto& entry : fs::directory_iterator(tiny_model)) fs::copy_file(entry.path(), path() / entry.path().filename());
    fs::permissions(path(), fs::perms::owner_all);
  }
  fs::path shard(int number) const { return path() / shard_name(number); }
  fs::path index() const { return path() / "model.safetensors.index.json"; }
  fs::path config() const { return path() / "config.json"; }
};

// Replaces the first occurrence; the test is wrong if there is none.
inline void replace(std::string& text, const std::string& from, const std::string& to) {
  const auto at = text.find(from);
  if (at == std::string::npos) throw std::runtime_error("nothing to replace: " + from);
  text.replace(at, from.size(), to);
}

inline void edit(const fs::path& path, const std::string& from, const std::string& to) {
  std::string text = slurp(path);
  replace(text, from, to);
  spill(path, text);
}

// The JSON header of a shard, and a shard with another header before the same data.
inline std::string header_of(const fs::path& shard) {
  const std::string all = slurp(shard);
  std::uint64_t length = 0;
  std::memcpy(&length, all.data(), 8);
  return all.substr(8, length);
}
inline void set_header(const fs::path& shard, const std::string& header) {
  const std::string all = slurp(shard);
  std::uint64_t length = 0;
  std::memcpy(&length, all.data(), 8);
  std::uint64_t now = header.size();
  std::string out(reinterpret_cast<const char*>(&now), 8);
  spill(shard, out + header + all.substr(8 + length));
}

inline bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace k3::test
