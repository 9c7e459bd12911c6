// Products of int8 activations with weights of 4 and 8 bits. A group's sum is an exact integer, so the ways to it below (straight
// from packed weights for few rows, through a decoded panel for many) cannot differ in a bit.
#pragma once

#include "kernels/integer_few_rows.hpp"

namespace k3::kernels {

// The sum of one group into its chain.
template <class T, class Weights>
inline typename T::F add_group(typename T::I sum, const float* scales, float x_scale, typename T::F chain) {
  const typename T::F x = T::set(x_scale);
  if constexpr (Weights::scaled_groups) {
    return T::fma(T::to_float(sum), T::mul(x, T::load(scales)), chain);
  } else {
    return T::fma(T::to_float(sum), x, chain);
  }
}

// Rows that meet one decoded panel: their chains (4 x 64 bytes a row and 16 outputs) stay in the second cache with their
// activations.
constexpr std::size_t integer_row_block = 128;

// 512 columns of T::tiles vectors of outputs, decoded: [tile][group][code], and their scales [tile][group].
template <class T>
struct IntegerPanel {
  static constexpr std::size_t code_bytes = 4 * T::outputs;
  alignas(64) std::uint8_t codes[T::tiles * panel_groups * codes_per_group * code_bytes];
  alignas(64) float scales[T::tiles * panel_groups * T::outputs];
  std::size_t count;  // groups

  const std::uint8_t* code(std::size_t tile, std::size_t group) const {
    return codes + (tile * panel_groups + group) * codes_per_group * code_bytes;
  }
  const float* scale(std::size_t tile, std::size_t group) const { return scales + (tile * panel_groups + group) * T::outputs; }

  template <class Weights>
  void decode(const Weights& w, std::size_t o, std::size_t outputs, std::size_t first, std::size_t groups, std::size_t tile) {
    w.scales(o, outputs, first, groups, scales + tile * panel_groups * T::outputs);
    for (std::size_t g = 0; g < groups; ++g) {
      typename T::I decoded[codes_per_group];
      w.codes(o, outputs, first + g, decoded);
#pragma GCC unroll 8
      for (std::size_t k = 0; k < codes_per_group; ++k) {
        T::store_codes(codes + ((tile * panel_groups + g) * codes_per_group + k) * code_bytes, decoded[k]);
      }
    }
  }
};

// R rows x O vectors of outputs of a panel: takes up their chains and puts them down again, one remainder after the other.
// x [R rows, x_stride blocks] from the panel's first block on; sums [R][O][chains][outputs].
template <class T, std::size_t R, std::size_t O, class Weights>
inline void integer_panel_rows(const IntegerPanel<T>& panel, const Block* x, std::size_t x_stride, float* kept) {
  using I = typename T::I;
  using F = typename T::F;
  for (std::size_t c = 0; c < chains && c < panel.count; ++c) {
    F chain[R][O];
#pragma GCC unroll 64
    for (std::size_t i = 0; i < R * O; ++i) {
      chain[i / O][i % O] = T::load(kept + (i * chains + c) * T::outputs);
    }
    for (std::size_t g = c; g < panel.count; g += chains) {
      I sum[R][O];
#pragma GCC unroll 16
      for (std::size_t r = 0; r < R; ++r) {
#pragma GCC unroll 4
        for (std::size_t t = 0; t < O; ++t) {
          sum[r][t] = T::set(-Weights::offset * x[r * x_stride + g / chains].sum[c]);
        }
      }
#pragma GCC unroll 8
      for (std::size_t k = 0; k < codes_per_group; ++k) {
        I codes[O];
#pragma GCC unroll 4
        for (std::size_t t = 0; t < O; ++t) {
          codes[t] = T::load_codes(panel.code(t, g) + k * IntegerPanel<T>::code_bytes);
        }
#pragma GCC unroll 16
        for (std::size_t r = 0; r < R; ++r) {
#pragma GCC unroll 4
          for (std::size_t t = 0; t < O; ++t) {
            sum[r][t] = T::template dot4<Weights::offset>(sum[r][t], codes[t], x[r * x_stride + g / chains].q[c] + 4 * k);
          }
        }
      }
#pragma GCC unroll 16
      for (std::size_t r = 0; r < R; ++r) {
#pragma GCC unroll 4
        for (std::size_t t = 0; t < O; ++t) {
          chain[r][t] = add_group<T, Weights>(sum[r][t], panel.scale(t, g), x[r * x_stride + g / chains].scale[c], chain[r][t]);
        }
      }
    }
#pragma GCC unroll 64
    for (std::size_t i = 0; i < R * O; ++i) {
      T::store(kept + (i * chains + c) * T::outputs, chain[i / O][i % O]);
    }
  }
}

// All rows of a block meet a panel, by the dot products of T. A tier with tiles has its own.
struct MeetByDots {
  template <class T, std::size_t O, class Weights>
  static void rows(const IntegerPanel<T>& panel, const Block* x, std::size_t x_stride, std::size_t count, float* kept) {
    constexpr std::size_t row_floats = O * chains * T::outputs;
    std::size_t r = 0;
    for (; r + T::row_tile <= count; r += T::row_tile) {
      integer_panel_rows<T, T::row_tile, O, Weights>(panel, x + r * x_stride, x_stride, kept + r * row_floats);
    }
    for (; r < count; ++r) {
      integer_panel_rows<T, 1, O, Weights>(panel, x + r * x_stride, x_stride, kept + r * row_floats);
    }
  }
};

// Up to integer_row_block rows x O vectors of outputs, of the last of which only some exist.
template <class T, std::size_t O, class Meet, class Weights>
inline void many_rows(const Weights& w, std::size_t o, std::size_t outputs, const Block* x, std::size_t rows, float* y,
                      std::size_t y_stride) {
  const std::size_t groups = groups_of(w.columns), blocks = blocks_of(w.columns);
  const auto exist = [&](std::size_t tile) {
    const std::size_t left = outputs - tile * T::outputs;
    return left < T::outputs ? left : T::outputs;
  };
  constexpr std::size_t row_floats = O * chains * T::outputs;
  alignas(64) float kept[integer_row_block * row_floats];
  for (std::size_t i = 0; i < rows * row_floats; ++i) {
    kept[i] = 0.0F;
  }
  IntegerPanel<T> panel;
  for (std::size_t first = 0; first < groups; first += panel_groups) {
    panel.count = groups - first < panel_groups ? groups - first : panel_groups;
    for (std::size_t t = 0; t < O; ++t) {
      panel.decode(w, o + t * T::outputs, exist(t), first, panel.count, t);
    }
    Meet::template rows<T, O, Weights>(panel, x + first / block_groups, blocks, rows, kept);
  }
  for (std::size_t r = 0; r < rows; ++r) {
    for (std::size_t t = 0; t < O; ++t) {
      const float* const chain = kept + (r * O + t) * chains * T::outputs;
      const typename T::F low = T::add(T::load(chain), T::load(chain + T::outputs));
      const typename T::F high = T::add(T::load(chain + 2 * T::outputs), T::load(chain + 3 * T::outputs));
      store_some<T>(y + r * y_stride + o + t * T::outputs, w.finish(o + t * T::outputs, exist(t), T::add(low, high)), exist(t));
    }
  }
}

template <class T, class Meet, class Weights>
inline void many_rows_all(const Weights& w, std::size_t out, const Block* x, std::size_t rows, float* y, std::size_t y_stride) {
  constexpr std::size_t wide = T::tiles * T::outputs;
  const std::size_t blocks = blocks_of(w.columns);
  for (std::size_t r = 0; r < rows; r += integer_row_block) {
    const std::size_t count = rows - r < integer_row_block ? rows - r : integer_row_block;
    const Block* const x_block = x + r * blocks;
    float* const y_block = y + r * y_stride;
    std::size_t o = 0;
    for (; o + wide <= out; o += wide) {
      many_rows<T, T::tiles, Meet>(w, o, wide, x_block, count, y_block, y_stride);
    }
    for (; o < out; o += T::outputs) {
      many_rows<T, 1, Meet>(w, o, out - o < T::outputs ? out - o : T::outputs, x_block, count, y_block, y_stride);
    }
  }
}

template <class T, class Weights>
inline void integer_product(const Weights& w, std::size_t out, const Block* x, std::size_t rows, float* y, std::size_t y_stride) {
  if (rows > T::few_rows) {
    many_rows_all<T, MeetByDots>(w, out, x, rows, y, y_stride);
    return;
  }
  switch (rows) {
    case 1:
      few_rows<T, 1>(w, out, x, y, y_stride);
      return;
    case 2:
      few_rows<T, 2>(w, out, x, y, y_stride);
      return;
    case 3:
      few_rows<T, 3>(w, out, x, y, y_stride);
      return;
    default:
      few_rows<T, 4>(w, out, x, y, y_stride);
      return;
  }
}

}  // namespace k3::kernels
