// One zmm register holds 16 outputs; VNNI multiplies unsigned weights by signed activations.
#pragma once

#include <immintrin.h>

#include "kernels/outputs.hpp"

namespace k3::kernels {
namespace {

struct Avx512Outputs {
  using I = __m512i;
  using F = __m512;
  static constexpr std::size_t outputs = 16;
  static constexpr std::size_t few_rows = 4;
  static constexpr std::size_t row_tile = 4;
  static constexpr std::size_t bf16_row_tile = 4;
  static constexpr std::size_t tiles = 2;
  static constexpr std::int32_t mxfp4_offset = 12;
  static constexpr std::int32_t int4_offset = 8;
  static constexpr std::int32_t int8_offset = 128;

  static __m128i part(const std::uint8_t* p) { return _mm_loadu_si128(reinterpret_cast<const __m128i*>(p)); }
  static I load_lanes(const std::uint8_t* p, std::size_t stride) {
    I rows = _mm512_castsi128_si512(part(p));
    rows = _mm512_inserti32x4(rows, part(p + 4 * stride), 1);
    rows = _mm512_inserti32x4(rows, part(p + 8 * stride), 2);
    return _mm512_inserti32x4(rows, part(p + 12 * stride), 3);
  }
  // Output 4L + i is in the 128 bits L of register i, so that a 4x4 transposition within them puts the outputs in order.
  static void load_dwords(const std::uint8_t* p, std::size_t stride, I out[4]) {
    const I a = load_lanes(p, stride);
    const I b = load_lanes(p + stride, stride);
    const I c = load_lanes(p + 2 * stride, stride);
    const I d = load_lanes(p + 3 * stride, stride);
    const I ab01 = _mm512_unpacklo_epi32(a, b);
    const I ab23 = _mm512_unpackhi_epi32(a, b);
    const I cd01 = _mm512_unpacklo_epi32(c, d);
    const I cd23 = _mm512_unpackhi_epi32(c, d);
    out[0] = _mm512_unpacklo_epi64(ab01, cd01);
    out[1] = _mm512_unpackhi_epi64(ab01, cd01);
    out[2] = _mm512_unpacklo_epi64(ab23, cd23);
    out[3] = _mm512_unpackhi_epi64(ab23, cd23);
  }

  static I set(std::int32_t x) { return _mm512_set1_epi32(x); }
  static F set(float x) { return _mm512_set1_ps(x); }
  static F load(const float* p) { return _mm512_loadu_ps(p); }
  static void store(float* p, F a) { _mm512_storeu_ps(p, a); }

  static I low_nibbles(I a) { return _mm512_and_si512(a, _mm512_set1_epi8(15)); }
  static I high_nibbles(I a) { return low_nibbles(_mm512_srli_epi32(a, 4)); }
  static I mxfp4_codes(I nibbles) {
    const __m128i values = _mm_setr_epi8(12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0);
    return _mm512_shuffle_epi8(_mm512_broadcast_i32x4(values), nibbles);
  }
  static I int4_codes(I nibbles) { return nibbles; }
  static I int8_codes(I bytes) { return _mm512_xor_si512(bytes, _mm512_set1_epi8(static_cast<char>(0x80))); }
  template <std::int32_t offset>
  static I dot4(I acc, I codes, const std::int8_t* p) {
    std::int32_t x = 0;
    __builtin_memcpy(&x, p, 4);
    return _mm512_dpbusd_epi32(acc, codes, _mm512_set1_epi32(x));
  }
  static I load_codes(const std::uint8_t* p) { return _mm512_load_si512(p); }
  static void store_codes(std::uint8_t* p, I a) { _mm512_store_si512(p, a); }

  static F to_float(I a) { return _mm512_cvtepi32_ps(a); }
  static F exponent(I a) {
    const I bits = _mm512_and_si512(_mm512_slli_epi32(a, 23), _mm512_set1_epi32(0x7f800000));
    return _mm512_castsi512_ps(_mm512_max_epi32(bits, _mm512_set1_epi32(0x00400000)));
  }
  static I shift_byte(I a) { return _mm512_srli_epi32(a, 8); }
  static F as_float(I a) { return _mm512_castsi512_ps(a); }
  static F even_bf16(I a) { return _mm512_castsi512_ps(_mm512_slli_epi32(a, 16)); }
  static F odd_bf16(I a) {
    return _mm512_castsi512_ps(_mm512_and_si512(a, _mm512_set1_epi32(static_cast<std::int32_t>(0xffff0000U))));
  }
  // --- [group][4] ---
  static constexpr std::size_t groups = 4;
  static constexpr std::size_t quads_alone = 2;

  static I load_bytes(const std::uint8_t* p) { return _mm512_loadu_si512(p); }
  static void load_even_odd(const std::int8_t* q, I& even, I& odd) {
    const I low = _mm512_loadu_si512(q);
    const I high = _mm512_loadu_si512(q + 64);
    even = _mm512_shuffle_i32x4(low, high, 0x88);
    odd = _mm512_shuffle_i32x4(low, high, 0xdd);
  }
  template <std::int32_t offset>
  static I dot_bytes(I codes, I x) {
    return _mm512_dpbusd_epi32(_mm512_setzero_si512(), codes, x);
  }
  template <std::int32_t offset>
  static I dot_pair(I a, I xa, I b, I xb) {
    return _mm512_dpbusd_epi32(dot_bytes<offset>(a, xa), b, xb);
  }
  static I fold(I a, I b) { return add(_mm512_shuffle_i32x4(a, b, 0x88), _mm512_shuffle_i32x4(a, b, 0xdd)); }
  static I reduce4(const I s[4]) {
    const I ab = add(_mm512_unpacklo_epi32(s[0], s[1]), _mm512_unpackhi_epi32(s[0], s[1]));
    const I cd = add(_mm512_unpacklo_epi32(s[2], s[3]), _mm512_unpackhi_epi32(s[2], s[3]));
    return add(_mm512_unpacklo_epi64(ab, cd), _mm512_unpackhi_epi64(ab, cd));
  }
  static I four_times() { return _mm512_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3); }
  static F spread(const float* p) { return _mm512_permutexvar_ps(four_times(), _mm512_castps128_ps512(_mm_loadu_ps(p))); }
  static I spread(const std::int32_t* p) {
    return _mm512_permutexvar_epi32(four_times(), _mm512_castsi128_si512(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))));
  }
  static F exponents4(const std::uint8_t* p, std::size_t stride) {
    std::int32_t rows[4];
    for (std::size_t i = 0; i < 4; ++i) {
      __builtin_memcpy(&rows[i], p + i * stride, 4);
    }
    const __m128i transposed = _mm_shuffle_epi8(_mm_setr_epi32(rows[0], rows[1], rows[2], rows[3]),
                                                _mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15));
    return exponent(_mm512_cvtepu8_epi32(transposed));
  }
  static F pair_scales4(const float* p, std::size_t stride) {
    const __m128 low = _mm_setr_ps(p[0], p[stride], p[2 * stride], p[3 * stride]);
    const __m128 high = _mm_setr_ps(p[1], p[stride + 1], p[2 * stride + 1], p[3 * stride + 1]);
    return _mm512_insertf32x8(_mm512_castps256_ps512(_mm256_set_m128(low, low)), _mm256_set_m128(high, high), 1);
  }
  static F keep_groups(std::size_t count, F a, F b) {
    return _mm512_mask_blend_ps(static_cast<__mmask16>((1U << (4 * count)) - 1U), b, a);
  }
  static void add_chains(const F chain[1], float out[4]) {
    const __m128 low = _mm_add_ps(_mm512_castps512_ps128(chain[0]), _mm512_extractf32x4_ps(chain[0], 1));
    const __m128 high = _mm_add_ps(_mm512_extractf32x4_ps(chain[0], 2), _mm512_extractf32x4_ps(chain[0], 3));
    _mm_storeu_ps(out, _mm_add_ps(low, high));
  }

  static I multiply(I a, I b) { return _mm512_mullo_epi32(a, b); }
  static I add(I a, I b) { return _mm512_add_epi32(a, b); }
  static F mul(F a, F b) { return _mm512_mul_ps(a, b); }
  static F add(F a, F b) { return _mm512_add_ps(a, b); }
  static F fma(F a, F b, F c) { return _mm512_fmadd_ps(a, b, c); }
};

}  // namespace
}  // namespace k3::kernels
