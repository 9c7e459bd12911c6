// Checksums against bytes that changed on the drive or on the way to it. Not against an enemy.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/checkpoint/pieces.hpp"

namespace k3::checkpoint {

// XXH64 with seed 0 (https://github.com/Cyan4973/xxHash, doc/xxhash_spec.md): 64 bits at the speed of memory.
std::uint64_t xxh64(const void* data, std::size_t bytes);

// A tensor's checksum is that of the list of its blocks' checksums (little-endian, in order), so that threads can work on one
// tensor. All blocks but the last have piece_bytes.
std::uint64_t tensor_checksum(std::span<const std::uint64_t> blocks);

// 16 hexadecimal digits each, one after the other. Reading gives nothing when the text is no such list.
inline constexpr std::size_t checksum_digits = 16;
std::string checksum_text(std::span<const std::uint64_t> checksums);
std::vector<std::uint64_t> parse_checksums(std::string_view text);

}  // namespace k3::checkpoint
