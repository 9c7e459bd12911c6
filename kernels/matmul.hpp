// Matrix products. Each (row, output) pair is one chain of 16 lanes over all columns, whatever runs beside it: several pairs are in
// flight only to hide the latency of fma, so the bits of a row do not depend on how many rows or outputs there are.
#pragma once

#include "kernels/lanes.hpp"

namespace k3::kernels {

template <class T>
struct WeightsF32 {
  const float* data;
  std::size_t columns;
  template <class Step>
  typename T::F load(std::size_t output, std::size_t column, Step step) const {
    return T::load(data + output * columns + column, step);
  }
};

template <class T>
struct WeightsBf16 {
  const std::uint16_t* data;
  std::size_t columns;
  template <class Step>
  typename T::F load(std::size_t output, std::size_t column, Step step) const {
    return T::load_bf16(data + output * columns + column, step);
  }
};

// 2^(scale - 127) in E8M0. 2^-127 is denormal, which E8M0's exponent field alone cannot say; 255 is NaN.
template <class T>
inline float mxfp4_scale(std::uint8_t scale) {
  const std::uint32_t bits = scale == 0 ? 0x00400000U : scale == 255 ? 0x7fc00000U : static_cast<std::uint32_t>(scale) << 23;
  return __builtin_bit_cast(float, bits);
}

template <class T>
struct WeightsMxfp4 {
  const std::uint8_t* packed;
  const std::uint8_t* scale;
  std::size_t columns;
  typename T::F load(std::size_t output, std::size_t column, Full) const {
    const std::size_t at = output * columns + column;
    return T::load_mxfp4(packed + at / 2, mxfp4_scale<T>(scale[at / 32]));
  }
  // Never reached: columns is a multiple of 32. It keeps the loops below one text for all weights.
  typename T::F load(std::size_t, std::size_t, Part) const { return T::set(0.0F); }
};

// Outputs o..o+O-1 of one row, weights straight from their packed form.
template <class T, std::size_t O, class Weights>
inline void row_alone(const Weights& w, std::size_t o, std::size_t columns, const float* x, float* y) {
  typename T::F acc[O];
#pragma GCC unroll 16
  for (std::size_t k = 0; k < O; ++k) {
    acc[k] = T::set(0.0F);
  }
  for_steps<T>(columns, [&](std::size_t i, auto step) {
    const typename T::F xs = T::load(x + i, step);
#pragma GCC unroll 16
    for (std::size_t k = 0; k < O; ++k) {
      acc[k] = accumulate<T>(w.load(o + k, i, step), xs, acc[k], step);
    }
  });
#pragma GCC unroll 16
  for (std::size_t k = 0; k < O; ++k) {
    y[o + k] = T::sum(acc[k]);
  }
}

constexpr std::size_t panel_columns = 256;  // weights of one panel, widened: 4 KiB for 4 outputs
constexpr std::size_t panel_rows = 16;      // and the rows they meet: 16 KiB, so that both stay in the first cache

// Where one panel stands: the weights widened, the activations and the accumulators of all its rows, [row][output][lane].
struct Panel {
  const float* w;
  std::size_t w_stride;
  const float* x;
  std::size_t x_stride;
  std::size_t n;
  float* acc;
};

// R rows x O outputs of a panel: takes up their chains and puts them down again.
template <class T, std::size_t O, std::size_t R, std::size_t Stride>
inline void panel_tile(const Panel& p, std::size_t row) {
  typename T::F acc[R][O];
  float* const kept = p.acc + row * Stride * lanes;
  const float* const x = p.x + row * p.x_stride;
#pragma GCC unroll 16
  for (std::size_t r = 0; r < R; ++r) {
#pragma GCC unroll 16
    for (std::size_t k = 0; k < O; ++k) {
      acc[r][k] = T::load(kept + (r * Stride + k) * lanes, Full{});
    }
  }
  for_steps<T>(p.n, [&](std::size_t i, auto step) {
    typename T::F w[O];
#pragma GCC unroll 16
    for (std::size_t k = 0; k < O; ++k) {
      w[k] = T::load(p.w + k * p.w_stride + i, step);
    }
#pragma GCC unroll 16
    for (std::size_t r = 0; r < R; ++r) {
      const typename T::F xs = T::load(x + r * p.x_stride + i, step);
#pragma GCC unroll 16
      for (std::size_t k = 0; k < O; ++k) {
        acc[r][k] = accumulate<T>(w[k], xs, acc[r][k], step);
      }
    }
  });
#pragma GCC unroll 16
  for (std::size_t r = 0; r < R; ++r) {
#pragma GCC unroll 16
    for (std::size_t k = 0; k < O; ++k) {
      T::store(kept + (r * Stride + k) * lanes, acc[r][k], Full{});
    }
  }
}

// Up to panel_rows rows x outputs o..o+O-1. A panel is a multiple of 16 columns wide, so element i still meets lane i mod 16.
template <class T, std::size_t O, class Weights>
inline void row_block(const Weights& w, std::size_t o, std::size_t columns, const float* x, std::size_t rows, std::size_t x_stride,
                      float* y, std::size_t y_stride) {
  alignas(64) float acc[panel_rows * O * lanes];
  alignas(64) float widened[O * panel_columns];
  for (std::size_t i = 0; i < rows * O * lanes; ++i) {
    acc[i] = 0.0F;
  }
  for (std::size_t c = 0; c < columns; c += panel_columns) {
    const std::size_t n = columns - c < panel_columns ? columns - c : panel_columns;
    for (std::size_t k = 0; k < O; ++k) {
      for_steps<T>(n,
                   [&](std::size_t i, auto step) { T::store(widened + k * panel_columns + i, w.load(o + k, c + i, step), step); });
    }
    const Panel panel{widened, panel_columns, x + c, x_stride, n, acc};
    std::size_t r = 0;
    for (; r + T::row_tile <= rows; r += T::row_tile) {
      panel_tile<T, O, T::row_tile, O>(panel, r);
    }
    for (; r < rows; ++r) {
      panel_tile<T, O, 1, O>(panel, r);
    }
  }
  for (std::size_t r = 0; r < rows; ++r) {
    for (std::size_t k = 0; k < O; ++k) {
      y[r * y_stride + o + k] = T::sum(T::load(acc + (r * O + k) * lanes, Full{}));
    }
  }
}

template <class T, class Weights>
inline void matmul(const Weights& w, std::size_t out, const float* x, std::size_t rows, std::size_t x_stride, float* y,
                   std::size_t y_stride) {
  if (rows == 1) {
    std::size_t o = 0;
    for (; o + T::outputs_alone <= out; o += T::outputs_alone) {
      row_alone<T, T::outputs_alone>(w, o, w.columns, x, y);
    }
    for (; o < out; ++o) {
      row_alone<T, 1>(w, o, w.columns, x, y);
    }
    return;
  }
  for (std::size_t r = 0; r < rows; r += panel_rows) {
    const std::size_t count = rows - r < panel_rows ? rows - r : panel_rows;
    const float* const x_block = x + r * x_stride;
    float* const y_block = y + r * y_stride;
    std::size_t o = 0;
    for (; o + T::output_tile <= out; o += T::output_tile) {
      row_block<T, T::output_tile>(w, o, w.columns, x_block, count, x_stride, y_block, y_stride);
    }
    for (; o < out; ++o) {
      row_block<T, 1>(w, o, w.columns, x_block, count, x_stride, y_block, y_stride);
    }
  }
}

}  // namespace k3::kernels
