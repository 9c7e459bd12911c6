// Products of int8 activations with weights of 4 and 8 bits. A group's sum is an exact integer, so the ways to it below (straight
// from packed weights for few rows, through a decoded panel for many) cannot differ in a bit.
#pragma once

#include "kernels/outputs.hpp"

namespace k3::kernels {

constexpr std::size_t panel_groups =
    16;  // 512 columns: scales of one byte fill 16 bytes of a row, decoded codes 8 KiB for 16 outputs
constexpr std::size_t codes_per_group = 8;  // vectors of 4 columns

// Weights from output o on, of which `outputs` exist (at most T::outputs).
template <class T>
struct Mxfp4Weights {
  using I = typename T::I;
  using F = typename T::F;
  static constexpr std::int32_t offset = T::mxfp4_offset;
  static constexpr float scale_of_x = 0.5F;
  const std::uint8_t* packed;
  const std::uint8_t* scale;
  std::size_t columns;

  void codes(std::size_t o, std::size_t outputs, std::size_t group, I out[codes_per_group]) const {
    I dwords[4];
    load_some_dwords<T>(packed + o * (columns / 2) + group * 16, columns / 2, outputs, 16, dwords);
#pragma GCC unroll 4
    for (std::size_t d = 0; d < 4; ++d) {
      out[d] = T::mxfp4_codes(T::low_nibbles(dwords[d]));
      out[4 + d] = T::mxfp4_codes(T::high_nibbles(dwords[d]));
    }
  }
  // The share of a group in the rows from o on.
  void prefetch_group(std::size_t o, std::size_t group) const {
    prefetch<16 * T::outputs>(packed + o * (columns / 2) + group * 16 * T::outputs);
    if (group * T::outputs % 64 == 0) {
      prefetch<64>(scale + o * (columns / group_columns) + group * T::outputs);
    }
  }
  // Of `count` groups, at most panel_groups.
  void scales(std::size_t o, std::size_t outputs, std::size_t group, std::size_t count, float* out) const {
    const std::size_t stride = columns / group_columns;
    I dwords[4];
    load_some_dwords<T>(scale + o * stride + group, stride, outputs, count, dwords);
#pragma GCC unroll 4
    for (std::size_t d = 0; d < 4; ++d) {
#pragma GCC unroll 4
      for (std::size_t b = 0; b < 4; ++b) {
        T::store(out + (4 * d + b) * T::outputs, T::exponent(dwords[d]));
        dwords[d] = T::shift_byte(dwords[d]);
      }
    }
  }
  F finish(std::size_t, std::size_t, F sum) const { return sum; }
};

template <class T>
struct Int4Weights {
  using I = typename T::I;
  using F = typename T::F;
  static constexpr std::int32_t offset = T::int4_offset;
  static constexpr float scale_of_x = 1.0F;
  const std::uint8_t* packed;
  const float* scale;
  std::size_t columns;

  void codes(std::size_t o, std::size_t outputs, std::size_t group, I out[codes_per_group]) const {
    I dwords[4];
    load_some_dwords<T>(packed + o * (columns / 2) + group * 16, columns / 2, outputs, 16, dwords);
#pragma GCC unroll 4
    for (std::size_t d = 0; d < 4; ++d) {
      out[d] = T::int4_codes(T::low_nibbles(dwords[d]));
      out[4 + d] = T::int4_codes(T::high_nibbles(dwords[d]));
    }
  }
  void prefetch_group(std::size_t o, std::size_t group) const {
    prefetch<16 * T::outputs>(packed + o * (columns / 2) + group * 16 * T::outputs);
    if (group * T::outputs % 32 == 0) {
      prefetch<64>(scale + o * (columns / 64) + group * T::outputs / 2);
    }
  }
  void scales(std::size_t o, std::size_t outputs, std::size_t group, std::size_t count, float* out) const {
    const std::size_t stride = columns / 64;
    const auto* const first = reinterpret_cast<const std::uint8_t*>(scale + o * stride + group / 2);
    for (std::size_t g = 0; g < count; g += 8) {
      I dwords[4];
      load_some_dwords<T>(first + 2 * g, stride * sizeof(float), outputs, 2 * (count - g), dwords);
#pragma GCC unroll 4
      for (std::size_t d = 0; d < 4; ++d) {
        T::store(out + (g + 2 * d) * T::outputs, T::as_float(dwords[d]));
        T::store(out + (g + 2 * d + 1) * T::outputs, T::as_float(dwords[d]));
      }
    }
  }
  F finish(std::size_t, std::size_t, F sum) const { return sum; }
};

template <class T>
struct Int8Weights {
  using I = typename T::I;
  using F = typename T::F;
  static constexpr std::int32_t offset = T::int8_offset;
  static constexpr float scale_of_x = 1.0F;
  const std::int8_t* data;
  const float* scale;
  std::size_t columns;

  void codes(std::size_t o, std::size_t outputs, std::size_t group, I out[codes_per_group]) const {
    const auto* const first = reinterpret_cast<const std::uint8_t*>(data) + o * columns + group * group_columns;
    const std::size_t left = columns - group * group_columns;
    load_some_dwords<T>(first, columns, outputs, left, out);
    load_some_dwords<T>(first + 16, columns, outputs, left > 16 ? left - 16 : 0, out + 4);
#pragma GCC unroll 8
    for (std::size_t d = 0; d < codes_per_group; ++d) {
      out[d] = T::int8_codes(out[d]);
    }
  }
  void prefetch_group(std::size_t o, std::size_t group) const {
    prefetch<32 * T::outputs>(data + o * columns + group * 32 * T::outputs);
  }
  void scales(std::size_t, std::size_t, std::size_t, std::size_t, float*) const {}
  F finish(std::size_t o, std::size_t outputs, F sum) const {
    alignas(64) float some[T::outputs] = {};
    if (outputs == T::outputs) {
      return T::mul(sum, T::load(scale + o));
    }
    for (std::size_t i = 0; i < outputs; ++i) {
      some[i] = scale[o + i];
    }
    return T::mul(sum, T::load(some));
  }
};

template <class T, class Weights>
constexpr bool scaled_groups = !__is_same(Weights, Int8Weights<T>);

// The sum of one group into its chain.
template <class T, class Weights>
inline typename T::F add_group(typename T::I sum, const float* scales, float x_scale, typename T::F chain) {
  const typename T::F x = T::set(x_scale * Weights::scale_of_x);
  if constexpr (scaled_groups<T, Weights>) {
    return T::fma(T::to_float(sum), T::mul(x, T::load(scales)), chain);
  } else {
    return T::fma(T::to_float(sum), x, chain);
  }
}

// `more`: whole vectors of outputs follow. R rows x one vector of outputs, weights straight from their packed form.
template <class T, std::size_t R, class Weights>
inline void few_rows(const Weights& w, std::size_t o, std::size_t outputs, bool more, const Group* x, float* y,
                     std::size_t y_stride) {
  using I = typename T::I;
  const std::size_t groups = groups_of(w.columns);
  typename T::F chain[R][2];
#pragma GCC unroll 4
  for (std::size_t r = 0; r < R; ++r) {
    chain[r][0] = chain[r][1] = T::set(0.0F);
  }
  alignas(64) float scales[panel_groups * T::outputs];
  for (std::size_t first = 0; first < groups; first += panel_groups) {
    const std::size_t count = groups - first < panel_groups ? groups - first : panel_groups;
    w.scales(o, outputs, first, count, scales);
    const auto step = [&](std::size_t g, std::size_t parity) {
      if (more) {
        w.prefetch_group(o + T::outputs, first + g);
      }
      I codes[codes_per_group];
      w.codes(o, outputs, first + g, codes);
#pragma GCC unroll 4
      for (std::size_t r = 0; r < R; ++r) {
        const Group& group = x[r * groups + first + g];
        I sum = T::set(-Weights::offset * group.sum);
#pragma GCC unroll 8
        for (std::size_t k = 0; k < codes_per_group; ++k) {
          sum = T::template dot4<Weights::offset>(sum, codes[k], group.q + 4 * k);
        }
        chain[r][parity] = add_group<T, Weights>(sum, scales + g * T::outputs, group.scale, chain[r][parity]);
      }
    };
    std::size_t g = 0;
    for (; g + 2 <= count; g += 2) {
      step(g, 0);
      step(g + 1, 1);
    }
    if (g < count) {
      step(g, 0);
    }
  }
#pragma GCC unroll 4
  for (std::size_t r = 0; r < R; ++r) {
    store_some<T>(y + r * y_stride + o, w.finish(o, outputs, T::add(chain[r][0], chain[r][1])), outputs);
  }
}

// Rows that meet one decoded panel: their chains (2 x 64 bytes a row and 16 outputs) stay in the second cache with their
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

// R rows x O vectors of outputs of a panel: takes up their chains and puts them down again.
// x [R rows, x_stride groups] from the panel's first group on; chains [R][O][2][outputs].
template <class T, std::size_t R, std::size_t O, class Weights>
inline void integer_panel_rows(const IntegerPanel<T>& panel, const Group* x, std::size_t x_stride, float* chains) {
  using I = typename T::I;
  using F = typename T::F;
  F chain[R][O][2];
#pragma GCC unroll 64
  for (std::size_t i = 0; i < R * O * 2; ++i) {
    chain[i / 2 / O][i / 2 % O][i % 2] = T::load(chains + i * T::outputs);
  }
  const auto step = [&](std::size_t g, std::size_t parity) {
    I sum[R][O];
#pragma GCC unroll 16
    for (std::size_t r = 0; r < R; ++r) {
#pragma GCC unroll 4
      for (std::size_t t = 0; t < O; ++t) {
        sum[r][t] = T::set(-Weights::offset * x[r * x_stride + g].sum);
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
          sum[r][t] = T::template dot4<Weights::offset>(sum[r][t], codes[t], x[r * x_stride + g].q + 4 * k);
        }
      }
    }
#pragma GCC unroll 16
    for (std::size_t r = 0; r < R; ++r) {
#pragma GCC unroll 4
      for (std::size_t t = 0; t < O; ++t) {
        chain[r][t][parity] = add_group<T, Weights>(sum[r][t], panel.scale(t, g), x[r * x_stride + g].scale, chain[r][t][parity]);
      }
    }
  };
  std::size_t g = 0;
  for (; g + 2 <= panel.count; g += 2) {
    step(g, 0);
    step(g + 1, 1);
  }
  if (g < panel.count) {
    step(g, 0);
  }
#pragma GCC unroll 64
  for (std::size_t i = 0; i < R * O * 2; ++i) {
    T::store(chains + i * T::outputs, chain[i / 2 / O][i / 2 % O][i % 2]);
  }
}

// All rows of a block meet a panel, by the dot products of T. A tier with tiles has its own.
struct MeetByDots {
  template <class T, std::size_t O, class Weights>
  static void rows(const IntegerPanel<T>& panel, const Group* x, std::size_t x_stride, std::size_t count, float* chains) {
    constexpr std::size_t row_floats = O * 2 * T::outputs;
    std::size_t r = 0;
    for (; r + T::row_tile <= count; r += T::row_tile) {
      integer_panel_rows<T, T::row_tile, O, Weights>(panel, x + r * x_stride, x_stride, chains + r * row_floats);
    }
    for (; r < count; ++r) {
      integer_panel_rows<T, 1, O, Weights>(panel, x + r * x_stride, x_stride, chains + r * row_floats);
    }
  }
};

// Up to integer_row_block rows x O vectors of outputs, of the last of which only some exist.
template <class T, std::size_t O, class Meet, class Weights>
inline void many_rows(const Weights& w, std::size_t o, std::size_t outputs, const Group* x, std::size_t rows, float* y,
                      std::size_t y_stride) {
  const std::size_t groups = groups_of(w.columns);
  const auto exist = [&](std::size_t tile) {
    const std::size_t left = outputs - tile * T::outputs;
    return left < T::outputs ? left : T::outputs;
  };
  constexpr std::size_t row_floats = O * 2 * T::outputs;
  alignas(64) float chains[integer_row_block * row_floats];
  for (std::size_t i = 0; i < rows * row_floats; ++i) {
    chains[i] = 0.0F;
  }
  IntegerPanel<T> panel;
  for (std::size_t first = 0; first < groups; first += panel_groups) {
    panel.count = groups - first < panel_groups ? groups - first : panel_groups;
    for (std::size_t t = 0; t < O; ++t) {
      panel.decode(w, o + t * T::outputs, exist(t), first, panel.count, t);
    }
    Meet::template rows<T, O, Weights>(panel, x + first, groups, rows, chains);
  }
  for (std::size_t r = 0; r < rows; ++r) {
    for (std::size_t t = 0; t < O; ++t) {
      const float* const chain = chains + r * row_floats + t * 2 * T::outputs;
      const typename T::F sum = T::add(T::load(chain), T::load(chain + T::outputs));
      store_some<T>(y + r * y_stride + o + t * T::outputs, w.finish(o + t * T::outputs, exist(t), sum), exist(t));
    }
  }
}

template <class T, std::size_t R, class Weights>
inline void few_rows_all(const Weights& w, std::size_t out, const Group* x, float* y, std::size_t y_stride) {
  for (std::size_t o = 0; o < out; o += T::outputs) {
    few_rows<T, R>(w, o, out - o < T::outputs ? out - o : T::outputs, out - o >= 2 * T::outputs, x, y, y_stride);
  }
}

template <class T, class Meet, class Weights>
inline void many_rows_all(const Weights& w, std::size_t out, const Group* x, std::size_t rows, float* y, std::size_t y_stride) {
  constexpr std::size_t wide = T::tiles * T::outputs;
  const std::size_t groups = groups_of(w.columns);
  for (std::size_t r = 0; r < rows; r += integer_row_block) {
    const std::size_t count = rows - r < integer_row_block ? rows - r : integer_row_block;
    const Group* const x_block = x + r * groups;
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
inline void integer_product(const Weights& w, std::size_t out, const Group* x, std::size_t rows, float* y, std::size_t y_stride) {
  if (rows > T::few_rows) {
    many_rows_all<T, MeetByDots>(w, out, x, rows, y, y_stride);
    return;
  }
  switch (rows) {
    case 1:
      few_rows_all<T, 1>(w, out, x, y, y_stride);
      return;
    case 2:
      few_rows_all<T, 2>(w, out, x, y, y_stride);
      return;
    case 3:
      few_rows_all<T, 3>(w, out, x, y, y_stride);
      return;
    default:
      few_rows_all<T, 4>(w, out, x, y, y_stride);
      return;
  }
}

}  // namespace k3::kernels
