// Products of bf16 activations and weights, in the order of the TDPBF16PS instruction.
#pragma once

#include "kernels/bf16_lines.hpp"
#include "kernels/outputs.hpp"

namespace k3::kernels {

constexpr std::size_t block_columns = 32;  // e and o begin anew with each block
constexpr std::size_t panel_blocks = 4;    // 128 columns of 16 outputs, widened: 8 KiB
constexpr std::size_t panel_width = panel_blocks * block_columns;
constexpr std::size_t bf16_row_block = 64;

template <class T>
struct Bf16Weights {
  using I = typename T::I;
  using F = typename T::F;
  const std::uint16_t* data;
  std::size_t columns;

  // Eight columns from `column` on: 2d and 2d + 1 in pairs[d].
  void load_pairs(std::size_t o, std::size_t outputs, std::size_t column, I pairs[4]) const {
    const std::size_t left = column < columns ? columns - column : 0;
    const auto* const first = reinterpret_cast<const std::uint8_t*>(data + o * columns) + column * 2;
    load_some_dwords<T>(first, columns * 2, outputs, left * 2, pairs);
  }
  // 2d in even[d], 2d + 1 in odd[d].
  void load(std::size_t o, std::size_t outputs, std::size_t column, F even[4], F odd[4]) const {
    I dwords[4];
    load_pairs(o, outputs, column, dwords);
#pragma GCC unroll 4
    for (std::size_t d = 0; d < 4; ++d) {
      even[d] = T::even_bf16(dwords[d]);
      odd[d] = T::odd_bf16(dwords[d]);
    }
  }
};

// Activations of `rows` rows over one panel: those of the matrix where the panel is whole, a copy filled up with zeros where not.
struct PanelInput {
  const float* x;
  std::size_t stride;
};

// R rows x one vector of outputs. x has all columns, filled up to whole blocks.
template <class T, std::size_t R>
inline void bf16_few_rows(const Bf16Weights<T>& w, std::size_t o, std::size_t outputs, bool more, std::size_t first,
                          std::size_t columns, PanelInput in, typename T::F y[R]) {
  using F = typename T::F;
  for (std::size_t block = 0; block < columns; block += block_columns) {
    F e[R];
    F odd_sum[R];
#pragma GCC unroll 4
    for (std::size_t r = 0; r < R; ++r) {
      e[r] = odd_sum[r] = T::set(0.0F);
    }
#pragma GCC unroll 4
    for (std::size_t c = 0; c < block_columns; c += 8) {
      F even[4];
      F odd[4];
      if (more) {
        prefetch<16 * T::outputs>(w.data + (o + T::outputs) * w.columns + (first + block + c) * T::outputs);
      }
      w.load(o, outputs, first + block + c, even, odd);
#pragma GCC unroll 4
      for (std::size_t d = 0; d < 4; ++d) {
#pragma GCC unroll 4
        for (std::size_t r = 0; r < R; ++r) {
          const float* const x = in.x + r * in.stride + block + c + 2 * d;
          e[r] = T::fma(even[d], T::set(x[0]), e[r]);
          odd_sum[r] = T::fma(odd[d], T::set(x[1]), odd_sum[r]);
        }
      }
    }
#pragma GCC unroll 4
    for (std::size_t r = 0; r < R; ++r) {
      y[r] = T::add(y[r], T::add(e[r], odd_sum[r]));
    }
  }
}

// The last columns of rows whose number is no multiple of 32, filled up.
template <std::size_t Rows>
inline PanelInput padded_tail(const float* x, std::size_t x_stride, std::size_t rows, std::size_t left,
                              float (&tail)[Rows * block_columns]) {
  for (std::size_t i = 0; i < Rows * block_columns; ++i) {
    tail[i] = 0.0F;
  }
  for (std::size_t r = 0; r < rows; ++r) {
    for (std::size_t i = 0; i < left; ++i) {
      tail[r * block_columns + i] = x[r * x_stride + i];
    }
  }
  return {tail, block_columns};
}

template <class T, std::size_t R>
inline void bf16_few_rows_all(const Bf16Weights<T>& w, std::size_t out, const float* x, std::size_t x_stride, float* y,
                              std::size_t y_stride) {
  const std::size_t whole = w.columns / block_columns * block_columns;
  float tail[R * block_columns];
  const PanelInput rest = padded_tail<R>(x + whole, x_stride, R, w.columns - whole, tail);
  for (std::size_t o = 0; o < out; o += T::outputs) {
    const std::size_t outputs = out - o < T::outputs ? out - o : T::outputs;
    const bool more = out - o >= 2 * T::outputs;
    typename T::F sums[R];
#pragma GCC unroll 4
    for (std::size_t r = 0; r < R; ++r) {
      sums[r] = T::set(0.0F);
    }
    bf16_few_rows<T, R>(w, o, outputs, more, 0, whole, {x, x_stride}, sums);
    if (whole != w.columns) {
      bf16_few_rows<T, R>(w, o, outputs, more, whole, block_columns, rest, sums);
    }
#pragma GCC unroll 4
    for (std::size_t r = 0; r < R; ++r) {
      store_some<T>(y + r * y_stride + o, sums[r], outputs);
    }
  }
}

// One block of 32 columns of R rows x O vectors of outputs. w [O][32][outputs], sums [R][O][outputs].
template <class T, std::size_t R, std::size_t O>
inline void bf16_panel_rows(const float* w, std::size_t tile_stride, PanelInput in, std::size_t blocks, float* sums) {
  using F = typename T::F;
  for (std::size_t block = 0; block < blocks; ++block) {
    F e[R][O];
    F odd_sum[R][O];
#pragma GCC unroll 64
    for (std::size_t i = 0; i < R * O; ++i) {
      e[i / O][i % O] = odd_sum[i / O][i % O] = T::set(0.0F);
    }
    for (std::size_t pair = 0; pair < block_columns / 2; ++pair) {
      const std::size_t c = block * block_columns + 2 * pair;
      F even[O];
      F odd[O];
#pragma GCC unroll 4
      for (std::size_t t = 0; t < O; ++t) {
        even[t] = T::load(w + t * tile_stride + c * T::outputs);
        odd[t] = T::load(w + t * tile_stride + (c + 1) * T::outputs);
      }
#pragma GCC unroll 16
      for (std::size_t r = 0; r < R; ++r) {
        const F x_even = T::set(in.x[r * in.stride + c]);
        const F x_odd = T::set(in.x[r * in.stride + c + 1]);
#pragma GCC unroll 4
        for (std::size_t t = 0; t < O; ++t) {
          e[r][t] = T::fma(even[t], x_even, e[r][t]);
          odd_sum[r][t] = T::fma(odd[t], x_odd, odd_sum[r][t]);
        }
      }
    }
#pragma GCC unroll 64
    for (std::size_t i = 0; i < R * O; ++i) {
      float* const y = sums + i * T::outputs;
      T::store(y, T::add(T::load(y), T::add(e[i / O][i % O], odd_sum[i / O][i % O])));
    }
  }
}

// Up to bf16_row_block rows x O vectors of outputs, of the last of which only some exist.
template <class T, std::size_t O>
inline void bf16_many_rows(const Bf16Weights<T>& w, std::size_t o, std::size_t outputs, const float* x, std::size_t x_stride,
                           std::size_t rows, float* y, std::size_t y_stride) {
  using F = typename T::F;
  const auto exist = [&](std::size_t tile) {
    const std::size_t left = outputs - tile * T::outputs;
    return left < T::outputs ? left : T::outputs;
  };
  constexpr std::size_t row_floats = O * T::outputs;
  constexpr std::size_t tile_stride = panel_width * T::outputs;
  alignas(64) float sums[bf16_row_block * row_floats];
  alignas(64) float panel[O * tile_stride];
  float tail[bf16_row_block * block_columns];
  for (std::size_t i = 0; i < rows * row_floats; ++i) {
    sums[i] = 0.0F;
  }
  for (std::size_t first = 0; first < w.columns;) {
    const std::size_t left = w.columns - first;
    const bool whole = left >= block_columns;
    const std::size_t width = left >= panel_width ? panel_width : whole ? left / block_columns * block_columns : block_columns;
    PanelInput in{x + first, x_stride};
    if (!whole) {
      in = padded_tail<bf16_row_block>(x + first, x_stride, rows, left, tail);
    }
    for (std::size_t t = 0; t < O; ++t) {
      for (std::size_t c = 0; c < width; c += 8) {
        F even[4];
        F odd[4];
        w.load(o + t * T::outputs, exist(t), first + c, even, odd);
#pragma GCC unroll 4
        for (std::size_t d = 0; d < 4; ++d) {
          T::store(panel + t * tile_stride + (c + 2 * d) * T::outputs, even[d]);
          T::store(panel + t * tile_stride + (c + 2 * d + 1) * T::outputs, odd[d]);
        }
      }
    }
    const std::size_t blocks = width / block_columns;
    std::size_t r = 0;
    for (; r + T::bf16_row_tile <= rows; r += T::bf16_row_tile) {
      bf16_panel_rows<T, T::bf16_row_tile, O>(panel, tile_stride, {in.x + r * in.stride, in.stride}, blocks, sums + r * row_floats);
    }
    for (; r < rows; ++r) {
      bf16_panel_rows<T, 1, O>(panel, tile_stride, {in.x + r * in.stride, in.stride}, blocks, sums + r * row_floats);
    }
    first += width;
  }
  for (std::size_t r = 0; r < rows; ++r) {
    for (std::size_t t = 0; t < O; ++t) {
      store_some<T>(y + r * y_stride + o + t * T::outputs, T::load(sums + (r * O + t) * T::outputs), exist(t));
    }
  }
}

template <class T, std::size_t R>
inline void bf16_rows(const Bf16Weights<T>& w, std::size_t out, const float* x, std::size_t x_stride, float* y,
                      std::size_t y_stride) {
  if constexpr (requires { typename T::Four; }) {
    bf16_lines<T, R>(w.data, out, w.columns, x, x_stride, y, y_stride);
  } else {
    bf16_few_rows_all<T, R>(w, out, x, x_stride, y, y_stride);
  }
}

template <class T>
inline void bf16_product(const std::uint16_t* data, std::size_t out, std::size_t columns, const float* x, std::size_t rows,
                         std::size_t x_stride, float* y, std::size_t y_stride) {
  const Bf16Weights<T> w{data, columns};
  if (rows <= T::few_rows) {
    switch (rows) {
      case 1:
        bf16_rows<T, 1>(w, out, x, x_stride, y, y_stride);
        return;
      case 2:
        bf16_rows<T, 2>(w, out, x, x_stride, y, y_stride);
        return;
      case 3:
        bf16_rows<T, 3>(w, out, x, x_stride, y, y_stride);
        return;
      default:
        bf16_rows<T, 4>(w, out, x, x_stride, y, y_stride);
        return;
    }
  }
  constexpr std::size_t wide = T::tiles * T::outputs;
  for (std::size_t r = 0; r < rows; r += bf16_row_block) {
    const std::size_t count = rows - r < bf16_row_block ? rows - r : bf16_row_block;
    std::size_t o = 0;
    for (; o + wide <= out; o += wide) {
      bf16_many_rows<T, T::tiles>(w, o, wide, x + r * x_stride, x_stride, count, y + r * y_stride, y_stride);
    }
    for (; o < out; o += T::outputs) {
      bf16_many_rows<T, 1>(w, o, out - o < T::outputs ? out - o : T::outputs, x + r * x_stride, x_stride, count, y + r * y_stride,
                           y_stride);
    }
  }
}

}  // namespace k3::kernels
