// What the tests of containers share.
#pragma once

#include <map>

#include "model/checkpoint/repack.hpp"
#include "tests/checkpoint/support.hpp"

namespace k3::test {

using checkpoint::Precision;
using checkpoint::TrunkPrecision;

inline constexpr TrunkPrecision all_int8{Precision::int8, Precision::int8, Precision::int8};
inline constexpr TrunkPrecision all_int4{Precision::int4, Precision::int4, Precision::int4};

inline checkpoint::RepackOptions repack_options(const fs::path& source, const fs::path& destination,
                                                const TrunkPrecision& precision = all_int8) {
  checkpoint::RepackOptions options;
  options.source = source;
  options.destination = destination;
  options.precision = precision;
  return options;
}

// The error of a run that must fail.
inline std::string repack_refusal(const checkpoint::RepackOptions& options) {
  const auto made = checkpoint::repack(options);
  return made ? "it was not refused" : made.error().describe();
}

// Every file of a directory with its bytes.
inline std::map<std::string, std::string> contents(const fs::path& directory) {
  std::map<std::string, std::string> files;
  for (const auto& entry : fs::directory_iterator(directory)) files[entry.path().filename().string()] = slurp(entry.path());
  return files;
}

// Behind all others of the shard; U8 of one dimension.
inline void append_tensor(const fs::path& shard, const std::string& name, const std::string& bytes) {
  std::string header = header_of(shard);
  const std::uint64_t end = fs::file_size(shard) - 8 - header.size();
  header.resize(header.rfind('}'));
  header += ",\"" + name + "\":{\"dtype\":\"U8\",\"shape\":[" + std::to_string(bytes.size()) + "],\"data_offsets\":[" +
            std::to_string(end) + "," + std::to_string(end + bytes.size()) + "]}}";
  set_header(shard, header);
  spill(shard, slurp(shard) + bytes);
}

inline void flip(const fs::path& path, std::uint64_t at) {
  std::string bytes = slurp(path);
  bytes.at(at) = static_cast<char>(bytes.at(at) ^ 1);
  spill(path, bytes);
}

}  // namespace k3::test
