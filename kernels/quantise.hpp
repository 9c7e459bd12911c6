// Activations rounded for the fast products.
#pragma once

#include "kernels/kernels.hpp"
#include "kernels/lanes.hpp"

namespace k3::kernels {

// Below this the quotient 127 / max|x| nears infinity; a group so small adds nothing to any sum that is not as small.
constexpr float smallest_group = 0x1p-100F;

template <class T>
struct Quantise {
  using F = typename T::F;

  static void fill(float value, Block& block, std::size_t g) {
    for (std::size_t i = 0; i < group_columns; ++i) {
      block.q[g][i] = 0;
    }
    block.scale[g] = value;
    block.sum[g] = 0;
  }

  static void group(const float* x, Order order, Block& out, std::size_t g) {
    const F low = T::load(x, Full{});
    const F high = T::load(x + lanes, Full{});
    // Of the bits, not the values: a NaN is larger than everything and is not lost.
    const std::uint32_t largest = T::largest_bits(T::abs(low), T::abs(high));
    const float size = __builtin_bit_cast(float, largest);
    if (largest >= 0x7f800000U) {
      fill(size - size, out, g);
      return;
    }
    if (size < smallest_group) {
      fill(0.0F, out, g);
      return;
    }
    const F factor = T::set(127.0F / size);
    out.scale[g] = size / 127.0F;
    out.sum[g] = T::round_to_bytes(T::mul(low, factor), T::mul(high, factor), order == Order::even_odd, out.q[g]);
  }

  static void row(const float* x, std::size_t columns, Order order, Block* out, std::size_t first) {
    std::size_t i = 0;
    std::size_t g = first / group_columns;
    for (; i + group_columns <= columns; i += group_columns, ++g) {
      group(x + i, order, out[g / block_groups], g % block_groups);
    }
    if (i < columns) {
      float padded[group_columns] = {};
      for (std::size_t k = i; k < columns; ++k) {
        padded[k - i] = x[k];
      }
      group(padded, order, out[g / block_groups], g % block_groups);
    }
  }

  static void round_bf16(const float* x, std::size_t n, float* y) {
    for_steps<T>(n, [&](std::size_t i, auto step) { T::store(y + i, T::round_bf16(T::load(x + i, step)), step); });
  }
};

}  // namespace k3::kernels
