// Trunk matrices in fewer bits, rounded when they are loaded or prepared: the one rounding for both, so both give the same bits.
#pragma once

#include <cstddef>
#include <cstdint>

#include "model/checkpoint/precision.hpp"

namespace k3::checkpoint {

// Bytes of the rounded matrix, without scales, and how many scales it has.
struct QuantisedSize {
  std::uint64_t bytes, scales;
};
inline constexpr std::size_t int4_group = 64;
// int4 asks for columns in whole groups of 64; other matrices become int8.
Precision possible(Precision wanted, std::size_t columns);
QuantisedSize quantised_size(Precision precision, std::size_t rows, std::size_t columns);

// int8: s = max(max|w| / 127, 1e-20) a row, q = round-half-even(w * (1/s)), clamped to -127..127.
// int4: s = max(max|w| / 7, 1e-20) for 64 columns, q likewise, clamped to -8..7, stored as q + 8, even columns in the low nibbles.
// Rows [0, rows) of `w` (bf16) go to rows [0, rows) of `out` and `scale`. All float32. False, with the output undefined, when a
// weight is not a finite number.
[[nodiscard]] bool quantise_rows(Precision precision, const std::uint16_t* w, std::size_t rows, std::size_t columns, void* out,
                                 float* scale);

// From int8 as stored to int4: the same rounding of w = q * s, in float32; whole groups of 64 columns. False when a scale is not
// finite.
[[nodiscard]] bool int8_to_int4(const std::int8_t* q, const float* q_scale, std::size_t rows, std::size_t columns,
                                std::uint8_t* out, float* scale);

}  // namespace k3::checkpoint
