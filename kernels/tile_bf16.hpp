// Products of bf16 activations by tiles, which count numbers below 2^-126 as zero. Where one could occur, fma takes their place.
#pragma once

#include "kernels/bf16_products.hpp"
#include "kernels/tiles.hpp"

namespace k3::kernels {

constexpr std::size_t tile_bf16_rows = 128;    // that meet one panel of weights
constexpr std::size_t tile_bf16_outputs = 64;  // that meet one panel of activations
constexpr std::size_t tile_blocks = 8;         // 256 columns: 64 KiB of 128 rows, 16 KiB of 32 outputs
constexpr std::size_t tile_panel = tile_blocks * block_columns;

// Tiles of 16 rows or outputs times 32 columns, and the exponent of the smallest number other than zero in them.
template <std::size_t Count>
struct Bf16Tiles {
  alignas(64) std::uint8_t bytes[Count * tile_blocks * tile_bytes];
  std::uint32_t smallest[Count];

  std::uint8_t* at(std::size_t tile, std::size_t block) { return bytes + (tile * tile_blocks + block) * tile_bytes; }
  const std::uint8_t* at(std::size_t tile, std::size_t block) const { return bytes + (tile * tile_blocks + block) * tile_bytes; }
};
using Bf16Rows = Bf16Tiles<tile_bf16_rows / tile_rows>;
using Bf16Outputs = Bf16Tiles<2>;

// `columns` of up to 16 rows, as A. A row that does not exist is zero.
template <class T>
inline void pack_rows(const float* x, std::size_t x_stride, std::size_t rows, std::size_t columns, std::size_t tile,
                      Bf16Rows& out) {
  typename T::I smallest = T::no_halves();
  for (std::size_t r = 0; r < tile_rows; ++r) {
    for (std::size_t c = 0; c < columns; c += block_columns) {
      const typename T::I halves = T::halves(x + (r < rows ? r * x_stride : 0) + c, r < rows ? columns - c : 0);
      smallest = T::smaller_halves(smallest, halves);
      T::store_codes(out.at(tile, c / block_columns) + r * 64, halves);
    }
  }
  out.smallest[tile] = T::smallest_exponent(smallest);
}

// `columns` of up to 16 outputs from `first` on, as B: each row of a tile holds a pair of columns.
template <class T>
inline void pack_outputs(const Bf16Weights<T>& w, std::size_t o, std::size_t outputs, std::size_t first, std::size_t columns,
                         std::size_t tile, Bf16Outputs& out) {
  typename T::I smallest = T::no_halves();
  const std::size_t blocks = (columns + block_columns - 1) / block_columns;
  for (std::size_t c = 0; c < blocks * block_columns; c += 8) {
    typename T::I pairs[4];
    w.load_pairs(o, outputs, first + c, pairs);
#pragma GCC unroll 4
    for (std::size_t d = 0; d < 4; ++d) {
      smallest = T::smaller_halves(smallest, pairs[d]);
      T::store_codes(out.at(tile, c / block_columns) + (c % block_columns / 2 + d) * 64, pairs[d]);
    }
  }
  out.smallest[tile] = T::smallest_exponent(smallest);
}

// Numbers of 8 bits from 2^a on times numbers from 2^b on are multiples of 2^(a + b - 14), and so are all their sums, rounded or
// not. While that is at least 2^-126, no number on the way is below it other than zero, and tiles give the bits of everybody else.
constexpr bool never_denormal(std::uint32_t x_exponent, std::uint32_t w_exponent) {
  return x_exponent >= 1 && w_exponent >= 1 && x_exponent + w_exponent >= 2 * 127 + 14 - 126;
}

// sums [m][n] tiles, `sums_stride` bytes from one m to the next.
template <class Tiles, std::size_t M, std::size_t N>
inline void multiply_blocks(const Bf16Rows& x, std::size_t row_tile, const Bf16Outputs& w, std::size_t blocks, std::uint8_t* sums,
                            std::size_t sums_stride) {
  Tiles::template load_c<0>(sums);
  if constexpr (N == 2) {
    Tiles::template load_c<1>(sums + tile_bytes);
  }
  if constexpr (M == 2) {
    Tiles::template load_c<2>(sums + sums_stride);
    if constexpr (N == 2) {
      Tiles::template load_c<3>(sums + sums_stride + tile_bytes);
    }
  }
  for (std::size_t block = 0; block < blocks; ++block) {
    Tiles::template load_a<0>(x.at(row_tile, block), 64);
    Tiles::template load_b<0>(w.at(0, block));
    Tiles::template multiply_bf16<0, 0>();
    if constexpr (N == 2) {
      Tiles::template load_b<1>(w.at(1, block));
      Tiles::template multiply_bf16<0, 1>();
    }
    if constexpr (M == 2) {
      Tiles::template load_a<1>(x.at(row_tile + 1, block), 64);
      Tiles::template multiply_bf16<1, 0>();
      if constexpr (N == 2) {
        Tiles::template multiply_bf16<1, 1>();
      }
    }
  }
  Tiles::template store_c<0>(sums);
  if constexpr (N == 2) {
    Tiles::template store_c<1>(sums + tile_bytes);
  }
  if constexpr (M == 2) {
    Tiles::template store_c<2>(sums + sums_stride);
    if constexpr (N == 2) {
      Tiles::template store_c<3>(sums + sums_stride + tile_bytes);
    }
  }
}

// The same for one tile by fma, which keeps denormals.
template <class T>
inline void multiply_blocks_slowly(const Bf16Rows& x, std::size_t row_tile, const Bf16Outputs& w, std::size_t n, std::size_t blocks,
                                   std::uint8_t* sums) {
  constexpr std::size_t together = 4;
  for (std::size_t block = 0; block < blocks; ++block) {
    for (std::size_t r = 0; r < tile_rows; r += together) {
      typename T::F e[together];
      typename T::F odd_sum[together];
#pragma GCC unroll 4
      for (std::size_t i = 0; i < together; ++i) {
        e[i] = odd_sum[i] = T::set(0.0F);
      }
      for (std::size_t pair = 0; pair < block_columns / 2; ++pair) {
        const typename T::I weights = T::load_codes(w.at(n, block) + pair * 64);
#pragma GCC unroll 4
        for (std::size_t i = 0; i < together; ++i) {
          std::int32_t bits = 0;
          __builtin_memcpy(&bits, x.at(row_tile, block) + (r + i) * 64 + pair * 4, 4);
          const typename T::I values = T::set(bits);
          e[i] = T::fma(T::even_bf16(weights), T::even_bf16(values), e[i]);
          odd_sum[i] = T::fma(T::odd_bf16(weights), T::odd_bf16(values), odd_sum[i]);
        }
      }
#pragma GCC unroll 4
      for (std::size_t i = 0; i < together; ++i) {
        auto* const y = reinterpret_cast<float*>(sums + (r + i) * 64);
        T::store(y, T::add(T::load(y), T::add(e[i], odd_sum[i])));
      }
    }
  }
}

// Up to 128 rows x up to 64 outputs. sums [row tile][output tile].
template <class Tiles, class T>
struct Bf16TileBlock {
  static constexpr std::size_t output_tiles = tile_bf16_outputs / T::outputs;
  static constexpr std::size_t row_stride = output_tiles * tile_bytes;
  alignas(64) std::uint8_t sums[tile_bf16_rows / tile_rows * row_stride];
  bool slowly[tile_bf16_rows / tile_rows / 2][output_tiles / 2];  // once a sum may be denormal it is no tile's any more
  Bf16Rows x;
  Bf16Outputs w;

  template <std::size_t M, std::size_t N>
  void multiply(std::size_t m, std::size_t n, std::size_t blocks) {
    bool& slow = slowly[m / 2][n / 2];
    for (std::size_t i = 0; i < M * N; ++i) {
      slow = slow || !never_denormal(x.smallest[m + i / N], w.smallest[i % N]);
    }
    std::uint8_t* const first = sums + m * row_stride + n * tile_bytes;
    if (!slow) {
      multiply_blocks<Tiles, M, N>(x, m, w, blocks, first, row_stride);
      return;
    }
    for (std::size_t i = 0; i < M * N; ++i) {
      multiply_blocks_slowly<T>(x, m + i / N, w, i % N, blocks, first + i / N * row_stride + i % N * tile_bytes);
    }
  }

  template <std::size_t N>
  void multiply_rows(std::size_t row_tiles, std::size_t n, std::size_t blocks) {
    std::size_t m = 0;
    for (; m + 2 <= row_tiles; m += 2) {
      multiply<2, N>(m, n, blocks);
    }
    if (m < row_tiles) {
      multiply<1, N>(m, n, blocks);
    }
  }

  void run(const Bf16Weights<T>& weights, std::size_t o, std::size_t outputs, const float* values, std::size_t x_stride,
           std::size_t rows, float* y, std::size_t y_stride) {
    const std::size_t row_tiles = (rows + tile_rows - 1) / tile_rows;
    const auto at_most = [](std::size_t n, std::size_t limit) { return n < limit ? n : limit; };
    for (std::size_t i = 0; i < row_tiles * row_stride; i += 64) {
      T::store_codes(sums + i, T::set(0));
    }
    for (auto& row : slowly) {
      for (bool& slow : row) {
        slow = false;
      }
    }
    for (std::size_t first = 0; first < weights.columns; first += tile_panel) {
      const std::size_t columns = at_most(weights.columns - first, tile_panel);
      const std::size_t blocks = (columns + block_columns - 1) / block_columns;
      for (std::size_t m = 0; m < row_tiles; ++m) {
        const std::size_t r = m * tile_rows;
        pack_rows<T>(values + r * x_stride + first, x_stride, at_most(rows - r, tile_rows), columns, m, x);
      }
      for (std::size_t at = 0; at < outputs; at += 2 * T::outputs) {
        const std::size_t left = outputs - at;
        pack_outputs<T>(weights, o + at, at_most(left, T::outputs), first, columns, 0, w);
        if (left > T::outputs) {
          pack_outputs<T>(weights, o + at + T::outputs, at_most(left - T::outputs, T::outputs), first, columns, 1, w);
          multiply_rows<2>(row_tiles, at / T::outputs, blocks);
        } else {
          multiply_rows<1>(row_tiles, at / T::outputs, blocks);
        }
      }
    }
    for (std::size_t r = 0; r < rows; ++r) {
      for (std::size_t at = 0; at < outputs; at += T::outputs) {
        const std::uint8_t* const sum = sums + r / tile_rows * row_stride + at / T::outputs * tile_bytes + r % tile_rows * 64;
        store_some<T>(y + r * y_stride + o + at, T::as_float(T::load_codes(sum)), at_most(outputs - at, T::outputs));
      }
    }
  }
};

}  // namespace k3::kernels
