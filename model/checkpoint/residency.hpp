// Which matrices of the trunk are in memory, and which stay on the drive when memory is short.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "model/checkpoint/checkpoint.hpp"
#include "model/checkpoint/stored_matrix.hpp"

namespace k3::checkpoint {

// Matrices start on a cache line: the kernels' widest loads never straddle two lines at a row's start.
inline constexpr std::uint64_t matrix_alignment = 64;
constexpr std::uint64_t round_up(std::uint64_t value, std::uint64_t to) { return (value + to - 1) / to * to; }

inline constexpr const char* embedding_name = "model.embed_tokens.weight";

// A matrix that stays on the drive, in the precision it is stored in.
struct StreamedMatrix {
  std::uint32_t file = 0;  // of the checkpoint
  std::uint64_t offset = 0, row_bytes = 0;
  std::size_t rows = 0;
  std::string name;
};

enum class MatrixKind : std::uint8_t { fixed, embedding, streamable };
// What is used whole by several threads at once (kv_b), or in float32 (the router), or is small, stays in memory; so does what has
// to be rounded first.
MatrixKind kind_of(std::string_view name, const StoredMatrix& stored, Precision wanted);

// Bytes the matrices of the first `max_layers` layers (0 = all) will take, about.
std::uint64_t trunk_bytes(const Config& config, std::size_t max_layers, const TrunkPrecision& precision);

// The same by what may become of them when memory is short.
struct TrunkSizes {
  std::uint64_t fixed = 0;       // must be in memory: what is small, used whole or rounded at start; scales
  std::uint64_t embedding = 0;   // a row a token: the first to stay on the drive
  std::uint64_t streamable = 0;  // can be read anew for each step
  std::uint64_t all() const { return fixed + embedding + streamable; }
};
TrunkSizes trunk_sizes(const Checkpoint& checkpoint, std::size_t max_layers, const TrunkPrecision& precision);

// What load_weights() keeps in memory. Parts of each layer rather than whole layers stay on the drive, so that it has something to
// read at any time.
struct Residency {
  bool whole = true;
  std::uint64_t streamable = 0;  // otherwise: bytes of these, at most
  bool mapped = false;           // whole, and left to the page cache
};

// Which of the streamable matrices stay on the drive: the same share of every stretch of them.
struct StreamedShare {
  bool whole = true;
  std::uint64_t streamable = 0, streamed = 0;  // bytes of all
  std::uint64_t passed = 0, left = 0;          // so far

  bool leave(std::uint64_t bytes);  // whether the next one, of so many bytes, does
};

}  // namespace k3::checkpoint
