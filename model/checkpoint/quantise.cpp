#include "model/checkpoint/quantise.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cassert>
#include <cmath>

namespace k3::checkpoint {
namespace {

constexpr float smallest_scale = 1e-20F;

float widen(std::uint16_t half) { return std::bit_cast<float>(static_cast<std::uint32_t>(half) << 16); }

float largest(const std::uint16_t* w, std::size_t n) {
  // Of the bits without their sign, which are in the order of the magnitudes; an integer maximum is what compilers vectorise.
  std::uint16_t bits = 0;
  for (std::size_t i = 0; i < n; ++i) bits = std::max(bits, static_cast<std::uint16_t>(w[i] & 0x7fffU));
  return widen(bits);
}

// To nearest, ties to even, for |x| < 2^22: beyond 1.5 * 2^23 a float has no bits left for a fraction.
int round_half_even(float x) { return static_cast<int>((x + 0x1.8p23F) - 0x1.8p23F); }

bool int8_row(const std::uint16_t* w, std::size_t columns, std::int8_t* out, float* scale) {
  const float most = largest(w, columns);
  if (!std::isfinite(most)) return false;
  *scale = std::max(most / 127.0F, smallest_scale);
  const float inverse = 1.0F / *scale;
  for (std::size_t i = 0; i < columns; ++i) {
    out[i] = static_cast<std::int8_t>(std::clamp(round_half_even(widen(w[i]) * inverse), -127, 127));
  }
  return true;
}

bool int4_group_of(const std::array<float, int4_group>& w, std::uint8_t* out, float* scale) {
  // Of the bits without their sign, as above.
  std::uint32_t most_bits = 0;
  for (const float x : w) most_bits = std::max(most_bits, std::bit_cast<std::uint32_t>(x) & 0x7fffffffU);
  const float most = std::bit_cast<float>(most_bits);
  if (!std::isfinite(most)) return false;
  *scale = std::max(most / 7.0F, smallest_scale);
  const float inverse = 1.0F / *scale;
  const auto code = [&](std::size_t i) { return static_cast<unsigned>(std::clamp(round_half_even(w[i] * inverse), -8, 7) + 8); };
  for (std::size_t i = 0; i < int4_group; i += 2) out[i / 2] = static_cast<std::uint8_t>(code(i) | code(i + 1) << 4U);
  return true;
}

}  // namespace

Precision possible(Precision wanted, std::size_t columns) {
  return wanted == Precision::int4 && columns % int4_group != 0 ? Precision::int8 : wanted;
}

QuantisedSize quantised_size(Precision precision, std::size_t rows, std::size_t columns) {
  switch (precision) {
    case Precision::bf16:
      return {rows * columns * 2, 0};
    case Precision::int8:
      return {rows * columns, rows};
    case Precision::int4:
      return {rows * columns / 2, rows * columns / int4_group};
  }
  return {};
}

bool quantise_rows(Precision precision, const std::uint16_t* w, std::size_t rows, std::size_t columns, void* out, float* scale) {
  assert(precision != Precision::bf16);
  for (std::size_t row = 0; row < rows; ++row, w += columns) {
    if (precision == Precision::int8) {
      if (!int8_row(w, columns, static_cast<std::int8_t*>(out) + row * columns, scale + row)) return false;
      continue;
    }
    for (std::size_t c = 0; c < columns; c += int4_group) {
      const std::size_t group = (row * columns + c) / int4_group;
      std::array<float, int4_group> values;
      for (std::size_t i = 0; i < int4_group; ++i) values[i] = widen(w[c + i]);
      if (!int4_group_of(values, static_cast<std::uint8_t*>(out) + group * int4_group / 2, scale + group)) return false;
    }
  }
  return true;
}

bool int8_to_int4(const std::int8_t* q, const float* q_scale, std::size_t rows, std::size_t columns, std::uint8_t* out,
                  float* scale) {
  assert(columns % int4_group == 0);
  const std::size_t groups = columns / int4_group;
  for (std::size_t group = 0; group < rows * groups; ++group, q += int4_group) {
    std::array<float, int4_group> values;
    for (std::size_t i = 0; i < int4_group; ++i) values[i] = static_cast<float>(q[i]) * q_scale[group / groups];
    if (!int4_group_of(values, out + group * int4_group / 2, scale + group)) return false;
  }
  return true;
}

}  // namespace k3::checkpoint
