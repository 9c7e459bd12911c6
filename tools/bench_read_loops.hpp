// Loops over memory in several shapes, for any width of register. V has a type Line of 64 bytes and the functions zero(),
// mix(Line, pointer) and fold(Line).
#pragma once

#include "tools/bench_loops.hpp"

namespace k3::cli::loops {

constexpr std::size_t line_bytes = 64;

// The block in `Streams` equal parts that are read side by side; `Ahead`: bytes that a prefetch runs before each of them.
template <class V, std::size_t Streams, std::size_t Ahead>
std::uint64_t read_block(const std::byte* block, std::size_t bytes) {
  typename V::Line mixed[Streams];
  for (auto& line : mixed) line = V::zero();
  const std::size_t part = bytes / Streams;
  for (std::size_t i = 0; i < part; i += line_bytes) {
#pragma GCC unroll 8
    for (std::size_t s = 0; s < Streams; ++s) {
      const std::byte* at = block + s * part + i;
      if constexpr (Ahead != 0) __builtin_prefetch(at + Ahead);
      mixed[s] = V::mix(mixed[s], at);
    }
  }
  std::uint64_t sum = 0;
  for (const auto& line : mixed) sum ^= V::fold(line);
  return sum;
}

template <class V>
struct Reads {
  static constexpr ReadLoop all[read_loop_count] = {
      {"1 stream", read_block<V, 1, 0>},
      {"4 streams", read_block<V, 4, 0>},
      {"1 stream, prefetch 1 KiB ahead", read_block<V, 1, 1024>},
      {"1 stream, prefetch 4 KiB ahead", read_block<V, 1, 4096>},
      {"4 streams, prefetch 1 KiB ahead", read_block<V, 4, 1024>},
      {"8 streams, prefetch 512 B ahead", read_block<V, 8, 512>},
  };
};

}  // namespace k3::cli::loops
