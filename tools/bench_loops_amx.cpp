// Tiles: 16 rows of 64 bytes each. Six of the eight are sums, which is more than their latency asks for.
#include <immintrin.h>

#include "tools/bench_loops.hpp"

namespace k3::cli::loops {
namespace {

constexpr std::size_t accumulators = 6, tile_rows = 16, tile_row_bytes = 64;

struct alignas(64) TileShapes {
  std::uint8_t palette = 1, start_row = 0, reserved[14] = {};
  std::uint16_t row_bytes[16] = {};
  std::uint8_t rows[16] = {};
};

// All tiles whole, the sums zero, tiles 6 and 7 filled with `pattern`. Tiles belong to a thread, so each run begins with this.
void load_tiles(std::uint16_t pattern) {
  TileShapes shapes;
  for (int i = 0; i < 8; ++i) {
    shapes.row_bytes[i] = tile_row_bytes;
    shapes.rows[i] = tile_rows;
  }
  _tile_loadconfig(&shapes);
  alignas(64) std::uint16_t filled[tile_rows * tile_row_bytes / 2];
  for (auto& value : filled) value = pattern;
  _tile_loadd(6, filled, tile_row_bytes);
  _tile_loadd(7, filled, tile_row_bytes);
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  _tile_zero(4);
  _tile_zero(5);
}

void add_bf16(std::size_t rounds) {
  load_tiles(0x3e80);  // 0.25
  for (std::size_t i = 0; i < rounds; ++i) {
    _tile_dpbf16ps(0, 6, 7);
    _tile_dpbf16ps(1, 6, 7);
    _tile_dpbf16ps(2, 6, 7);
    _tile_dpbf16ps(3, 6, 7);
    _tile_dpbf16ps(4, 6, 7);
    _tile_dpbf16ps(5, 6, 7);
  }
  _tile_release();
}

void add_integers(std::size_t rounds) {
  load_tiles(0x0303);
  for (std::size_t i = 0; i < rounds; ++i) {
    _tile_dpbssd(0, 6, 7);
    _tile_dpbssd(1, 6, 7);
    _tile_dpbssd(2, 6, 7);
    _tile_dpbssd(3, 6, 7);
    _tile_dpbssd(4, 6, 7);
    _tile_dpbssd(5, 6, 7);
  }
  _tile_release();
}

}  // namespace

const PeakLoop amx_bf16 = {"amx TDPBF16PS", accumulators * 16.0 * 16 * 32 * 2, add_bf16};
const PeakLoop amx_int8 = {"amx TDPBSSD", accumulators * 16.0 * 16 * 64 * 2, add_integers};

}  // namespace k3::cli::loops
