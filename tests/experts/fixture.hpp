// Small made-up experts in real files, and ways to await them.
#pragma once

#include <stdlib.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "model/experts/stream.hpp"
#include "tests/catch.hpp"

namespace k3::experts::test {

namespace asio = boost::asio;

class TemporaryDirectory {
 public:
  TemporaryDirectory() {
    std::string name = (std::filesystem::temp_directory_path() / "k3_experts_XXXXXX").string();
    REQUIRE(::mkdtemp(name.data()) != nullptr);
    path_ = name;
  }
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;
  ~TemporaryDirectory() { std::filesystem::remove_all(path_); }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

inline std::uint8_t byte_of(ExpertKey key, std::size_t part, std::size_t i) {
  return static_cast<std::uint8_t>(key.layer * 131 + key.expert * 31 + part * 7 + i + (i >> 8) * 3);
}

enum class Placement {
  together,   // the six tensors of an expert side by side: one window
  scattered,  // all first tensors, then all second ones...: six windows
  two_files,  // scales in another file
};

struct World {
  TemporaryDirectory directory;
  Layout layout;
  std::array<std::uint32_t, 6> sizes{9001, 1577, 5003, 1321, 9001, 1577};

  explicit World(Placement placement = Placement::together, std::uint32_t layers = 2, std::uint32_t experts = 4) {
    layout.first_layer = 1;
    layout.layers = layers;
    layout.experts = experts;
    layout.places.resize(std::size_t{layers} * experts);
    std::array<std::string, 2> contents;
    // An odd start, so that nothing is aligned by luck; the last tensor ends at the last byte of its file.
    contents.fill(std::string(77, 'x'));
    const auto put = [&](ExpertKey key, std::size_t part) {
      const std::uint32_t file = placement == Placement::two_files && part % 2 == 1 ? 1 : 0;
      layout.places[layout.index(key)][part] = {contents[file].size(), sizes[part], file};
      for (std::size_t i = 0; i < sizes[part]; ++i) contents[file].push_back(static_cast<char>(byte_of(key, part, i)));
    };
    const bool by_part = placement == Placement::scattered;
    for (std::size_t outer = 0; outer < (by_part ? 6U : 1U); ++outer) {
      for (std::uint32_t layer = 1; layer <= layers; ++layer) {
        for (std::uint32_t expert = 0; expert < experts; ++expert) {
          for (std::size_t part = by_part ? outer : 0; part < (by_part ? outer + 1 : 6U); ++part) put({layer, expert}, part);
        }
      }
    }
    for (std::size_t file = 0; file < 2; ++file) {
      const auto path = directory.path() / ("shard" + std::to_string(file));
      std::ofstream(path, std::ios::binary) << contents[file];
      layout.files.push_back({path, contents[file].size()});
    }
  }

  // The same files once more in a directory of their own, as if on another drive.
  void add_drive() {
    const auto drive = static_cast<std::uint32_t>(layout.files[0].more.size() + 1);
    const auto elsewhere = directory.path() / ("drive" + std::to_string(drive));
    std::filesystem::create_directory(elsewhere);
    for (checkpoint::File& file : layout.files) {
      std::filesystem::copy_file(file.path, elsewhere / file.path.filename());
      file.more.push_back({elsewhere / file.path.filename(), drive});
    }
  }

  std::size_t slot_bytes() const {
    std::size_t bytes = 0;
    for (const Pieces& pieces : layout.places) bytes = std::max<std::size_t>(bytes, plan_windows(pieces).bytes);
    return bytes;
  }

  bool holds(const ExpertBytes& bytes, ExpertKey key) const {
    const std::array<const std::uint8_t*, 6> parts{bytes.w1, bytes.w1_scale, bytes.w2, bytes.w2_scale, bytes.w3, bytes.w3_scale};
    for (std::size_t part = 0; part < 6; ++part) {
      for (std::size_t i = 0; i < sizes[part]; ++i) {
        if (parts[part][i] != byte_of(key, part, i)) return false;
      }
    }
    return true;
  }
};

// One acquire() under way, or its outcome.
struct Pending {
  std::stop_source stop;
  std::optional<Result<Lease>> result;
  bool ok() const { return result.has_value() && result->has_value(); }
  bool failed(ErrorCode code) const { return result.has_value() && result->has_error() && result->error().code == code; }
};

inline asio::awaitable<void> acquire_into(ExpertStream& stream, ExpertKey key, Pending& pending) {
  Result<Lease> result = co_await stream.acquire(key, pending.stop.get_token());
  pending.result.emplace(std::move(result));
}

inline asio::awaitable<void> drain_into(ExpertStream& stream, bool& drained) {
  co_await stream.drain();
  drained = true;
}

inline void start(asio::io_context& context, ExpertStream& stream, ExpertKey key, Pending& pending) {
  asio::co_spawn(context, acquire_into(stream, key, pending), asio::detached);
}

// Runs what can run now.
inline void settle(asio::io_context& context) {
  context.restart();
  context.poll();
}

inline Result<Lease> get(asio::io_context& context, ExpertStream& stream, ExpertKey key) {
  Pending pending;
  start(context, stream, key, pending);
  context.restart();
  while (!pending.result) context.run_one();
  return std::move(*pending.result);
}

}  // namespace k3::experts::test
