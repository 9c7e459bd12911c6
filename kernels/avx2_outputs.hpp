// One ymm register holds 8 outputs. Bytes are multiplied as unsigned by signed; where the sum of two products of int8 weights would
// not fit 16 bits, signs move from the activations to the weights first.
#pragma once

#include <immintrin.h>

#include "kernels/outputs.hpp"

namespace k3::kernels {
namespace {

struct Avx2Outputs {
  using I = __m256i;
  using F = __m256;
  static constexpr std::size_t outputs = 8;
  static constexpr std::size_t few_rows = 2;
  static constexpr std::size_t row_tile = 4;
  static constexpr std::size_t bf16_row_tile = 3;
  static constexpr std::size_t tiles = 1;
  static constexpr std::int32_t mxfp4_offset = 12;
  static constexpr std::int32_t int4_offset = 8;
  static constexpr std::int32_t int8_offset = 0;

  static __m128i part(const std::uint8_t* p) { return _mm_loadu_si128(reinterpret_cast<const __m128i*>(p)); }
  static I load_lanes(const std::uint8_t* p, std::size_t stride) {
    return _mm256_inserti128_si256(_mm256_castsi128_si256(part(p)), part(p + 4 * stride), 1);
  }
  static void load_dwords(const std::uint8_t* p, std::size_t stride, I out[4]) {
    const I a = load_lanes(p, stride);
    const I b = load_lanes(p + stride, stride);
    const I c = load_lanes(p + 2 * stride, stride);
    const I d = load_lanes(p + 3 * stride, stride);
    const I ab01 = _mm256_unpacklo_epi32(a, b);
    const I ab23 = _mm256_unpackhi_epi32(a, b);
    const I cd01 = _mm256_unpacklo_epi32(c, d);
    const I cd23 = _mm256_unpackhi_epi32(c, d);
    out[0] = _mm256_unpacklo_epi64(ab01, cd01);
    out[1] = _mm256_unpackhi_epi64(ab01, cd01);
    out[2] = _mm256_unpacklo_epi64(ab23, cd23);
    out[3] = _mm256_unpackhi_epi64(ab23, cd23);
  }

  static I set(std::int32_t x) { return _mm256_set1_epi32(x); }
  static F set(float x) { return _mm256_set1_ps(x); }
  static F load(const float* p) { return _mm256_loadu_ps(p); }
  static void store(float* p, F a) { _mm256_storeu_ps(p, a); }

  static I low_nibbles(I a) { return _mm256_and_si256(a, _mm256_set1_epi8(15)); }
  static I high_nibbles(I a) { return low_nibbles(_mm256_srli_epi32(a, 4)); }
  static I mxfp4_codes(I nibbles) {
    const __m128i values = _mm_setr_epi8(12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0);
    return _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(values), nibbles);
  }
  static I int4_codes(I nibbles) { return nibbles; }
  static I int8_codes(I bytes) { return bytes; }
  template <std::int32_t offset>
  static I dot4(I acc, I codes, const std::int8_t* p) {
    std::int32_t four = 0;
    __builtin_memcpy(&four, p, 4);
    const I x = _mm256_set1_epi32(four);
    I pairs;
    if constexpr (offset != 0) {
      pairs = _mm256_maddubs_epi16(codes, x);  // at most 24 * 127 * 2
    } else {
      pairs = _mm256_maddubs_epi16(_mm256_abs_epi8(x), _mm256_sign_epi8(codes, x));  // at most 127 * 127 * 2
    }
    return _mm256_add_epi32(acc, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
  }
  static I load_codes(const std::uint8_t* p) { return _mm256_load_si256(reinterpret_cast<const __m256i*>(p)); }
  static void store_codes(std::uint8_t* p, I a) { _mm256_store_si256(reinterpret_cast<__m256i*>(p), a); }

  static F to_float(I a) { return _mm256_cvtepi32_ps(a); }
  static F exponent(I a) {
    const I bits = _mm256_and_si256(_mm256_slli_epi32(a, 23), _mm256_set1_epi32(0x7f800000));
    return _mm256_castsi256_ps(_mm256_max_epi32(bits, _mm256_set1_epi32(0x00400000)));
  }
  static I shift_byte(I a) { return _mm256_srli_epi32(a, 8); }
  static F as_float(I a) { return _mm256_castsi256_ps(a); }
  static F even_bf16(I a) { return _mm256_castsi256_ps(_mm256_slli_epi32(a, 16)); }
  static F odd_bf16(I a) {
    return _mm256_castsi256_ps(_mm256_and_si256(a, _mm256_set1_epi32(static_cast<std::int32_t>(0xffff0000U))));
  }
  // --- [group][4] ---
  static constexpr std::size_t groups = 2;

  static I load_bytes(const std::uint8_t* p) { return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)); }
  static void load_even_odd(const std::int8_t* q, I& even, I& odd) {
    const I low = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(q));
    const I high = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(q + 32));
    even = _mm256_permute2x128_si256(low, high, 0x20);
    odd = _mm256_permute2x128_si256(low, high, 0x31);
  }
  static I add_pairs(I words) { return _mm256_madd_epi16(words, _mm256_set1_epi16(1)); }
  // Of int8 weights, which come without an offset.
  template <std::int32_t offset>
  static I dot_bytes(I codes, I x) {
    static_assert(offset == 0);
    return add_pairs(_mm256_maddubs_epi16(_mm256_abs_epi8(x), _mm256_sign_epi8(codes, x)));
  }
  // Of nibbles: twice two products of at most 24 * 127 fit 16 bits.
  template <std::int32_t offset>
  static I dot_pair(I a, I xa, I b, I xb) {
    static_assert(offset != 0);
    return add_pairs(_mm256_add_epi16(_mm256_maddubs_epi16(a, xa), _mm256_maddubs_epi16(b, xb)));
  }
  static I fold(I a, I b) { return add(_mm256_permute2x128_si256(a, b, 0x20), _mm256_permute2x128_si256(a, b, 0x31)); }
  static I reduce4(const I s[4]) {
    const I ab = add(_mm256_unpacklo_epi32(s[0], s[1]), _mm256_unpackhi_epi32(s[0], s[1]));
    const I cd = add(_mm256_unpacklo_epi32(s[2], s[3]), _mm256_unpackhi_epi32(s[2], s[3]));
    return add(_mm256_unpacklo_epi64(ab, cd), _mm256_unpackhi_epi64(ab, cd));
  }
  static F spread(const float* p) { return _mm256_set_m128(_mm_set1_ps(p[1]), _mm_set1_ps(p[0])); }
  static I spread(const std::int32_t* p) { return _mm256_set_m128i(_mm_set1_epi32(p[1]), _mm_set1_epi32(p[0])); }
  static F exponents4(const std::uint8_t* p, std::size_t stride) {
    std::uint16_t rows[4];
    for (std::size_t i = 0; i < 4; ++i) {
      __builtin_memcpy(&rows[i], p + i * stride, 2);
    }
    std::int64_t all = 0;
    __builtin_memcpy(&all, rows, 8);
    const __m128i transposed =
        _mm_shuffle_epi8(_mm_cvtsi64_si128(all), _mm_setr_epi8(0, 2, 4, 6, 1, 3, 5, 7, -1, -1, -1, -1, -1, -1, -1, -1));
    return exponent(_mm256_cvtepu8_epi32(transposed));
  }
  static F pair_scales4(const float* p, std::size_t stride) {
    const __m128 both = _mm_setr_ps(p[0], p[stride], p[2 * stride], p[3 * stride]);
    return _mm256_set_m128(both, both);
  }
  static F keep_groups(std::size_t count, F a, F b) { return count == groups ? a : _mm256_blend_ps(b, a, 0x0f); }
  static void add_chains(const F chain[2], float out[4]) {
    const __m128 low = _mm_add_ps(_mm256_castps256_ps128(chain[0]), _mm256_extractf128_ps(chain[0], 1));
    const __m128 high = _mm_add_ps(_mm256_castps256_ps128(chain[1]), _mm256_extractf128_ps(chain[1], 1));
    _mm_storeu_ps(out, _mm_add_ps(low, high));
  }

  static I multiply(I a, I b) { return _mm256_mullo_epi32(a, b); }
  static I add(I a, I b) { return _mm256_add_epi32(a, b); }
  static F mul(F a, F b) { return _mm256_mul_ps(a, b); }
  static F add(F a, F b) { return _mm256_add_ps(a, b); }
  static F fma(F a, F b, F c) { return _mm256_fmadd_ps(a, b, c); }
};

}  // namespace
}  // namespace k3::kernels
