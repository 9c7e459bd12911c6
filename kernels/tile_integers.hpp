// Products of int8 activations by tiles: a tile gives the exact sums of one group, which are then scaled into their chains as
// everywhere else.
#pragma once

#include "kernels/integer_products.hpp"
#include "kernels/tiles.hpp"

namespace k3::kernels {

// Groups whose sums leave the tiles before they are scaled: one for each chain, and their scales lie together. 16 KiB with 2 x 2
// tiles.
constexpr std::size_t sum_groups = chains;

// 16 rows of activations from the panel's first group on.
struct RowTile {
  const Block* x;
  std::size_t stride;  // in blocks
};

// The sums of M x N tiles in `count` groups: sums [group][m][n][row][output].
template <class Tiles, std::size_t M, std::size_t N, class T>
inline void multiply_groups(const IntegerPanel<T>& panel, std::size_t first, std::size_t count, const RowTile (&x)[M],
                            std::uint8_t* sums) {
  for (std::size_t g = first; g < first + count; ++g) {
    Tiles::template load_b<0>(panel.code(0, g));
    if constexpr (N == 2) {
      Tiles::template load_b<1>(panel.code(1, g));
    }
    const auto row_tile = [&]<std::size_t m>() {
      Tiles::template load_a<m>(x[m].x[g / block_groups].q[g % block_groups], x[m].stride * sizeof(Block));
      Tiles::template zero_c<2 * m>();
      Tiles::template multiply_int8<m, 0>();
      Tiles::template store_c<2 * m>(sums);
      sums += tile_bytes;
      if constexpr (N == 2) {
        Tiles::template zero_c<2 * m + 1>();
        Tiles::template multiply_int8<m, 1>();
        Tiles::template store_c<2 * m + 1>(sums);
        sums += tile_bytes;
      }
    };
    row_tile.template operator()<0>();
    if constexpr (M == 2) {
      row_tile.template operator()<1>();
    }
  }
}

// Scales the sums of `Count` groups of one tile of rows into their chains. sums [group][M][N]..., of which these begin at one m.
// Count is that of the chains, and `first` a multiple of it, or 1: each group has a chain of its own.
template <class T, std::size_t Count, std::size_t M, std::size_t N, class Weights>
inline void scale_sums(const IntegerPanel<T>& panel, std::size_t first, const RowTile& x, std::size_t rows,
                       const std::uint8_t* sums, float* kept) {
  for (std::size_t r = 0; r < rows; ++r) {
    const Block& block = x.x[r * x.stride + first / block_groups];
#pragma GCC unroll 2
    for (std::size_t n = 0; n < N; ++n) {
#pragma GCC unroll 4
      for (std::size_t g = 0; g < Count; ++g) {
        const std::size_t c = first % chains + g;
        float* const chain = kept + ((r * N + n) * chains + c) * T::outputs;
        const typename T::I sum = T::load_codes(sums + (g * M * N + n) * tile_bytes + r * 64);
        T::store(chain, add_group<T, Weights>(sum, panel.scale(n, first + g), block.scale[c], T::load(chain)));
      }
    }
  }
}

template <class Tiles>
struct MeetByTiles {
  // M tiles of rows, of the last of which only some exist: `rows` in all.
  template <class T, std::size_t M, std::size_t N, class Weights>
  static void row_tiles(const IntegerPanel<T>& panel, const RowTile (&x)[M], std::size_t rows, float* kept) {
    alignas(64) std::uint8_t sums[sum_groups * M * N * tile_bytes];
    std::size_t g = 0;
    const auto groups = [&]<std::size_t Count>() {
      multiply_groups<Tiles, M, N>(panel, g, Count, x, sums);
      for (std::size_t m = 0; m < M; ++m) {
        const std::size_t left = rows - m * tile_rows;
        scale_sums<T, Count, M, N, Weights>(panel, g, x[m], left < tile_rows ? left : tile_rows, sums + m * N * tile_bytes,
                                            kept + m * tile_rows * N * chains * T::outputs);
      }
      g += Count;
    };
    while (g + sum_groups <= panel.count) {
      groups.template operator()<sum_groups>();
    }
    while (g < panel.count) {
      groups.template operator()<1>();
    }
  }

  template <class T, std::size_t N, class Weights>
  static void rows(const IntegerPanel<T>& panel, const Block* x, std::size_t x_stride, std::size_t count, float* kept) {
    constexpr std::size_t row_floats = N * chains * T::outputs;
    constexpr std::size_t panel_blocks_of_x = panel_groups / block_groups;
    Block filled[tile_rows * panel_blocks_of_x];
    const auto tile = [&](std::size_t r) {
      if (count - r >= tile_rows) {
        return RowTile{x + r * x_stride, x_stride};
      }
      // What the missing rows hold is never looked at, but a tile is loaded whole.
      for (std::size_t i = 0; i < tile_rows; ++i) {
        const std::size_t row = r + i < count ? r + i : r;
        for (std::size_t b = 0; b * block_groups < panel.count; ++b) {
          filled[i * panel_blocks_of_x + b] = x[row * x_stride + b];
        }
      }
      return RowTile{filled, panel_blocks_of_x};
    };
    for (std::size_t r = 0; r < count; r += 2 * tile_rows) {
      if (count - r > tile_rows) {
        const std::size_t both = count - r < 2 * tile_rows ? count - r : 2 * tile_rows;
        row_tiles<T, 2, N, Weights>(panel, {tile(r), tile(r + tile_rows)}, both, kept + r * row_floats);
      } else {
        row_tiles<T, 1, N, Weights>(panel, {tile(r)}, count - r, kept + r * row_floats);
      }
    }
  }
};

}  // namespace k3::kernels
