// What tiles need of vectors: weights as signed codes, pairs of bf16, and the smallest of them. 64 bytes are a row of a tile.
#pragma once

#include "kernels/avx512_outputs.hpp"

namespace k3::kernels {
namespace {

struct AmxOutputs : Avx512Outputs {
  // The tiles multiply signed by signed bytes: a code is the weight.
  static constexpr std::int32_t mxfp4_offset = 0;
  static constexpr std::int32_t int4_offset = 0;
  static constexpr std::int32_t int8_offset = 0;
  static I mxfp4_codes(I nibbles) {
    const __m128i values = _mm_setr_epi8(0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12);
    return _mm512_shuffle_epi8(_mm512_broadcast_i32x4(values), nibbles);
  }
  static I int4_codes(I nibbles) { return _mm512_sub_epi8(nibbles, _mm512_set1_epi8(8)); }
  static I int8_codes(I bytes) { return bytes; }

  // The upper halves of `count` floats, at most 32, filled up with zeros.
  static I halves(const float* x, std::size_t count) {
    const I odd = _mm512_set_epi16(63, 61, 59, 57, 55, 53, 51, 49, 47, 45, 43, 41, 39, 37, 35, 33, 31, 29, 27, 25, 23, 21, 19, 17,
                                   15, 13, 11, 9, 7, 5, 3, 1);
    if (count >= 32) {
      return _mm512_permutex2var_epi16(_mm512_loadu_si512(x), odd, _mm512_loadu_si512(x + 16));
    }
    const std::uint32_t exist = (std::uint32_t{1} << count) - 1;
    const I low = _mm512_maskz_loadu_epi32(static_cast<__mmask16>(exist & 0xffffU), x);
    const std::uint32_t upper = exist >> 16U;
    const I high = upper == 0 ? _mm512_setzero_si512() : _mm512_maskz_loadu_epi32(static_cast<__mmask16>(upper), x + 16);
    return _mm512_permutex2var_epi16(low, odd, high);
  }

  // The smallest magnitude of bf16 numbers other than zero: for zero less one is the largest number there is.
  static I no_halves() { return _mm512_set1_epi16(-1); }
  static I smaller_halves(I smallest, I halves) {
    const I magnitude = _mm512_and_si512(halves, _mm512_set1_epi16(0x7fff));
    return _mm512_min_epu16(smallest, _mm512_sub_epi16(magnitude, _mm512_set1_epi16(1)));
  }
  // Its exponent as stored; 0 means a denormal, more than 255 that there is none but zero.
  static std::uint32_t smallest_exponent(I smallest) {
    alignas(64) std::uint16_t all[32];
    _mm512_store_si512(all, smallest);
    std::uint32_t least = 0xffff;
    for (const std::uint16_t value : all) {
      least = value < least ? value : least;
    }
    return (least + 1) >> 7U;
  }
};

}  // namespace
}  // namespace k3::kernels
