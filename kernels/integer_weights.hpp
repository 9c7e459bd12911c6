// The forms of weights that meet int8 activations, in the two ways that products take them: vectors whose lanes are outputs (for
// panels), and bytes of one output after the other (for few rows).
#pragma once

#include "kernels/outputs.hpp"

namespace k3::kernels {

constexpr std::size_t panel_groups =
    16;  // 512 columns: scales of one byte fill 16 bytes of a row, decoded codes 8 KiB for 16 outputs
constexpr std::size_t codes_per_group = 8;  // vectors of 4 columns

// Nibbles of even columns, then of odd ones, as activations in even_odd order lie.
template <class T, class Weights>
struct NibbleWeights {
  using I = typename T::I;
  static constexpr std::size_t group_bytes = 16;
  const std::uint8_t* packed;
  std::size_t columns;

  std::size_t row_bytes() const { return columns / 2; }
  const std::uint8_t* row(std::size_t o) const { return packed + o * row_bytes(); }
  // One group of T::outputs outputs from o on, of which `outputs` exist.
  void codes(std::size_t o, std::size_t outputs, std::size_t group, I out[codes_per_group]) const {
    I dwords[4];
    load_some_dwords<T>(row(o) + group * group_bytes, row_bytes(), outputs, group_bytes, dwords);
#pragma GCC unroll 4
    for (std::size_t d = 0; d < 4; ++d) {
      out[d] = Weights::decode(T::low_nibbles(dwords[d]));
      out[4 + d] = Weights::decode(T::high_nibbles(dwords[d]));
    }
  }
  // T::groups groups of one output, at p.
  struct Bytes {
    I even, odd;
  };
  static Bytes bytes(const std::uint8_t* p) {
    const I both = T::load_bytes(p);
    return {Weights::decode(T::low_nibbles(both)), Weights::decode(T::high_nibbles(both))};
  }
  // Sums of four columns, [group][4].
  static I dot(const Bytes& w, I x_even, I x_odd) { return T::template dot_pair<Weights::offset>(w.even, x_even, w.odd, x_odd); }
  static void activations(const std::int8_t* q, I& a, I& b) { T::load_even_odd(q, a, b); }
};

template <class T>
struct Mxfp4Weights : NibbleWeights<T, Mxfp4Weights<T>> {
  using I = typename T::I;
  using F = typename T::F;
  static constexpr std::int32_t offset = T::mxfp4_offset;
  static constexpr bool scaled_groups = true;
  const std::uint8_t* scale;

  Mxfp4Weights(const std::uint8_t* packed_codes, const std::uint8_t* scales, std::size_t width)
      : NibbleWeights<T, Mxfp4Weights<T>>{packed_codes, width}, scale(scales) {}
  static I decode(I nibbles) { return T::mxfp4_codes(nibbles); }

  const std::uint8_t* scale_row(std::size_t o) const { return scale + o * (this->columns / group_columns); }
  void prefetch_scales(std::size_t o) const { prefetch_bytes(scale_row(o), this->columns / group_columns); }
  // Of `count` groups, at most panel_groups, of T::outputs outputs; halved, for the codes are doubled.
  void scales(std::size_t o, std::size_t outputs, std::size_t group, std::size_t count, float* out) const {
    I dwords[4];
    load_some_dwords<T>(scale_row(o) + group, this->columns / group_columns, outputs, count, dwords);
#pragma GCC unroll 4
    for (std::size_t d = 0; d < 4; ++d) {
#pragma GCC unroll 4
      for (std::size_t b = 0; b < 4; ++b) {
        T::store(out + (4 * d + b) * T::outputs, T::mul(T::exponent(dwords[d]), T::set(0.5F)));
        dwords[d] = T::shift_byte(dwords[d]);
      }
    }
  }
  // Of T::groups groups of four outputs, `stride` rows apart: [group][output].
  F scales4(std::size_t o, std::size_t stride, std::size_t group) const {
    const std::size_t row = this->columns / group_columns;
    return T::mul(T::exponents4(scale_row(o) + group, stride * row), T::set(0.5F));
  }
  F finish(std::size_t, std::size_t, F sum) const { return sum; }
  float finish_one(std::size_t, float sum) const { return sum; }
};

template <class T>
struct Int4Weights : NibbleWeights<T, Int4Weights<T>> {
  using I = typename T::I;
  using F = typename T::F;
  static constexpr std::int32_t offset = T::int4_offset;
  static constexpr bool scaled_groups = true;
  const float* scale;

  Int4Weights(const std::uint8_t* packed_codes, const float* scales, std::size_t width)
      : NibbleWeights<T, Int4Weights<T>>{packed_codes, width}, scale(scales) {}
  static I decode(I nibbles) { return T::int4_codes(nibbles); }

  void prefetch_scales(std::size_t o) const {
    prefetch_bytes(scale + o * (this->columns / 64), this->columns / 64 * sizeof(float));
  }
  void scales(std::size_t o, std::size_t outputs, std::size_t group, std::size_t count, float* out) const {
    const std::size_t stride = this->columns / 64;
    const auto* const first = reinterpret_cast<const std::uint8_t*>(scale + o * stride + group / 2);
    for (std::size_t g = 0; g < count; g += 8) {
      I dwords[4];
      load_some_dwords<T>(first + 2 * g, stride * sizeof(float), outputs, (count - g + 1) / 2 * sizeof(float), dwords);
#pragma GCC unroll 4
      for (std::size_t d = 0; d < 4; ++d) {
        T::store(out + (g + 2 * d) * T::outputs, T::as_float(dwords[d]));
        T::store(out + (g + 2 * d + 1) * T::outputs, T::as_float(dwords[d]));
      }
    }
  }
  F scales4(std::size_t o, std::size_t stride, std::size_t group) const {
    const std::size_t row = this->columns / 64;
    return T::pair_scales4(scale + o * row + group / 2, stride * row);
  }
  F finish(std::size_t, std::size_t, F sum) const { return sum; }
  float finish_one(std::size_t, float sum) const { return sum; }
};

template <class T>
struct Int8Weights {
  using I = typename T::I;
  using F = typename T::F;
  static constexpr std::int32_t offset = T::int8_offset;
  static constexpr bool scaled_groups = false;
  static constexpr std::size_t group_bytes = 32;
  const std::int8_t* data;
  const float* scale;
  std::size_t columns;

  std::size_t row_bytes() const { return columns; }
  const std::uint8_t* row(std::size_t o) const { return reinterpret_cast<const std::uint8_t*>(data) + o * columns; }
  void codes(std::size_t o, std::size_t outputs, std::size_t group, I out[codes_per_group]) const {
    const std::uint8_t* const first = row(o) + group * group_bytes;
    const std::size_t left = columns - group * group_bytes;
    load_some_dwords<T>(first, columns, outputs, left, out);
    load_some_dwords<T>(first + 16, columns, outputs, left > 16 ? left - 16 : 0, out + 4);
#pragma GCC unroll 8
    for (std::size_t d = 0; d < codes_per_group; ++d) {
      out[d] = T::int8_codes(out[d]);
    }
  }
  struct Bytes {
    I low, high;
  };
  static Bytes bytes(const std::uint8_t* p) {
    return {T::int8_codes(T::load_bytes(p)), T::int8_codes(T::load_bytes(p + sizeof(I)))};
  }
  static I dot(const Bytes& w, I x_low, I x_high) {
    return T::fold(T::template dot_bytes<offset>(w.low, x_low), T::template dot_bytes<offset>(w.high, x_high));
  }
  static void activations(const std::int8_t* q, I& a, I& b) {
    const auto* const p = reinterpret_cast<const std::uint8_t*>(q);
    a = T::load_bytes(p);
    b = T::load_bytes(p + sizeof(I));
  }
  void prefetch_scales(std::size_t) const {}
  void scales(std::size_t, std::size_t, std::size_t, std::size_t, float*) const {}
  F scales4(std::size_t, std::size_t, std::size_t) const { return T::set(1.0F); }
  F finish(std::size_t o, std::size_t outputs, F sum) const {
    if (outputs == T::outputs) {
      return T::mul(sum, T::load(scale + o));
    }
    alignas(64) float some[T::outputs] = {};
    for (std::size_t i = 0; i < outputs; ++i) {
      some[i] = scale[o + i];
    }
    return T::mul(sum, T::load(some));
  }
  float finish_one(std::size_t o, float sum) const { return sum * scale[o]; }
};

}  // namespace k3::kernels
