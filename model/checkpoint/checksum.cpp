#include "model/checkpoint/checksum.hpp"

#include <fmt/format.h>

#include <array>
#include <bit>
#include <charconv>
#include <cstring>

namespace k3::checkpoint {
namespace {

// The constants and the steps are those of the specification.
constexpr std::uint64_t prime1 = 0x9E3779B185EBCA87, prime2 = 0xC2B2AE3D27D4EB4F, prime3 = 0x165667B19E3779F9,
                        prime4 = 0x85EBCA77C2B2AE63, prime5 = 0x27D4EB2F165667C5;

template <class Word>
Word load(const char* from) {
  Word word = 0;
  std::memcpy(&word, from, sizeof word);
  return word;
}

std::uint64_t round(std::uint64_t lane, std::uint64_t input) { return std::rotl(lane + input * prime2, 31) * prime1; }

std::uint64_t merge(std::uint64_t hash, std::uint64_t lane) { return (hash ^ round(0, lane)) * prime1 + prime4; }

std::uint64_t avalanche(std::uint64_t hash) {
  hash = (hash ^ hash >> 33U) * prime2;
  hash = (hash ^ hash >> 29U) * prime3;
  return hash ^ hash >> 32U;
}

}  // namespace

std::uint64_t xxh64(const void* data, std::size_t bytes) {
  const char* from = static_cast<const char*>(data);
  const char* const end = from + bytes;
  std::uint64_t hash = prime5;
  if (bytes >= 32) {
    std::array<std::uint64_t, 4> lanes{prime1 + prime2, prime2, 0, 0 - prime1};
    for (; end - from >= 32; from += 32) {
      for (std::size_t i = 0; i < 4; ++i) lanes[i] = round(lanes[i], load<std::uint64_t>(from + i * 8));
    }
    hash = std::rotl(lanes[0], 1) + std::rotl(lanes[1], 7) + std::rotl(lanes[2], 12) + std::rotl(lanes[3], 18);
    for (const std::uint64_t lane : lanes) hash = merge(hash, lane);
  }
  hash += bytes;
  for (; end - from >= 8; from += 8) hash = std::rotl(hash ^ round(0, load<std::uint64_t>(from)), 27) * prime1 + prime4;
  if (end - from >= 4) {
    hash = std::rotl(hash ^ load<std::uint32_t>(from) * prime1, 23) * prime2 + prime3;
    from += 4;
  }
  for (; from != end; ++from) hash = std::rotl(hash ^ static_cast<unsigned char>(*from) * prime5, 11) * prime1;
  return avalanche(hash);
}

std::uint64_t tensor_checksum(std::span<const std::uint64_t> blocks) { return xxh64(blocks.data(), blocks.size_bytes()); }

std::string checksum_text(std::span<const std::uint64_t> checksums) {
  std::string text;
  text.reserve(checksums.size() * checksum_digits);
  for (const std::uint64_t checksum : checksums) fmt::format_to(std::back_inserter(text), "{:016x}", checksum);
  return text;
}

std::vector<std::uint64_t> parse_checksums(std::string_view text) {
  if (text.size() % checksum_digits != 0) return {};
  std::vector<std::uint64_t> checksums(text.size() / checksum_digits);
  for (auto& checksum : checksums) {
    const char* const end = text.data() + checksum_digits;
    if (std::from_chars(text.data(), end, checksum, 16).ptr != end) return {};
    text.remove_prefix(checksum_digits);
  }
  return checksums;
}

}  // namespace k3::checkpoint
