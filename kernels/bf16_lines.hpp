// bf16 activations of few rows, where a register holds a line of memory: 32 columns, just a block. Four blocks of four outputs then
// fill its lanes, [output][block], and weights are read as they lie, in four long streams (integer_few_rows.hpp says why).
// Registers that are shorter take lanes of outputs instead (bf16_products.hpp).
#pragma once

#include "kernels/outputs.hpp"

namespace k3::kernels {

constexpr std::size_t line_bytes = 64;
constexpr std::size_t lines_columns = 128;  // the four blocks that meet at a time
// Twice what integers ask for, whose steps take half as long.
constexpr std::size_t lines_ahead = 2048;

// Four outputs, `stride` rows apart (0: one output, four times over), times R rows.
template <class T, std::size_t R>
struct Bf16Lines {
  using I = typename T::I;
  using F = typename T::F;

  const std::uint16_t* w;
  std::size_t columns, first, stride;
  const float* x;
  std::size_t x_stride;
  typename T::Four y[R];

  const std::uint8_t* place(std::size_t output, std::size_t column) const {
    return reinterpret_cast<const std::uint8_t*>(w + (first + output * stride) * columns + column);
  }

  // Four lines of each output, of which `blocks` exist; x [R, x_step].
  __attribute__((always_inline)) void step(const std::uint8_t* const lines[4], const float* values, std::size_t x_step,
                                           std::size_t blocks) {
    alignas(64) float in[R][lines_columns];
#pragma GCC unroll 4
    for (std::size_t r = 0; r < R; ++r) {
      T::interleave_blocks(values + r * x_step, in[r]);
    }
    I quarters[4][4];
    T::load_lines(lines, quarters);
    F e[R];
    F odd_sum[R];
#pragma GCC unroll 4
    for (std::size_t r = 0; r < R; ++r) {
      e[r] = odd_sum[r] = T::set(0.0F);
    }
#pragma GCC unroll 4
    for (std::size_t q = 0; q < 4; ++q) {
      I pairs[4];
      T::transpose_dwords(quarters[q], pairs);
#pragma GCC unroll 4
      for (std::size_t k = 0; k < 4; ++k) {
        const std::size_t column = 8 * q + 2 * k;
#pragma GCC unroll 4
        for (std::size_t r = 0; r < R; ++r) {
          e[r] = T::fma(T::even_bf16(pairs[k]), T::column_of_blocks(in[r], column), e[r]);
          odd_sum[r] = T::fma(T::odd_bf16(pairs[k]), T::column_of_blocks(in[r], column + 1), odd_sum[r]);
        }
      }
    }
#pragma GCC unroll 4
    for (std::size_t r = 0; r < R; ++r) {
      y[r] = T::add_blocks(y[r], T::add(e[r], odd_sum[r]), blocks);
    }
  }

  // The last columns of rows that are no multiple of 128, filled up with zeros.
  void tail(std::size_t column) {
    const std::size_t left = columns - column;
    alignas(64) std::uint8_t filled[4][4 * line_bytes] = {};
    float values[R * lines_columns] = {};
    const std::uint8_t* lines[4];
    for (std::size_t i = 0; i < 4; ++i) {
      __builtin_memcpy(filled[i], place(i, column), left * sizeof(std::uint16_t));
      lines[i] = filled[i];
    }
    for (std::size_t r = 0; r < R; ++r) {
      for (std::size_t i = 0; i < left; ++i) {
        values[r * lines_columns + i] = x[r * x_stride + column + i];
      }
    }
    step(lines, values, lines_columns, (left + 31) / 32);
  }

  // The first `outputs` of the four count.
  void run(float* out, std::size_t y_stride, std::size_t outputs) {
    const std::size_t whole = columns / lines_columns * lines_columns;
    for (std::size_t column = 0; column < whole; column += lines_columns) {
      const std::uint8_t* lines[4];
#pragma GCC unroll 4
      for (std::size_t i = 0; i < 4; ++i) {
        lines[i] = place(i, column);
        prefetch<4 * line_bytes>(lines[i] + lines_ahead);
      }
      step(lines, x + column, x_stride, 4);
    }
    if (whole != columns) {
      tail(whole);
    }
    for (std::size_t r = 0; r < R; ++r) {
      float four[4];
      T::store_four(four, y[r]);
      for (std::size_t i = 0; i < outputs; ++i) {
        out[r * y_stride + first + i * stride] = four[i];
      }
    }
  }
};

template <class T, std::size_t R>
inline void bf16_lines(const std::uint16_t* w, std::size_t out, std::size_t columns, const float* x, std::size_t x_stride, float* y,
                       std::size_t y_stride) {
  const std::size_t quarter = out / 4;
  prefetch_starts(reinterpret_cast<const std::uint8_t*>(w), quarter * columns * sizeof(std::uint16_t), lines_ahead);
  for (std::size_t o = 0; o < quarter; ++o) {
    Bf16Lines<T, R>{w, columns, o, quarter, x, x_stride, {}}.run(y, y_stride, 4);
  }
  for (std::size_t o = 4 * quarter; o < out; ++o) {
    Bf16Lines<T, R>{w, columns, o, 0, x, x_stride, {}}.run(y, y_stride, 1);
  }
}

}  // namespace k3::kernels
