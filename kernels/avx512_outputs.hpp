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
    const I lines[4] = {a, b, c, d};
    transpose_dwords(lines, out);
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

  // --- [output][block] ---
  using Four = __m128;

  static void transpose_dwords(const I in[4], I out[4]) {
    const I ab01 = _mm512_unpacklo_epi32(in[0], in[1]);
    const I ab23 = _mm512_unpackhi_epi32(in[0], in[1]);
    const I cd01 = _mm512_unpacklo_epi32(in[2], in[3]);
    const I cd23 = _mm512_unpackhi_epi32(in[2], in[3]);
    out[0] = _mm512_unpacklo_epi64(ab01, cd01);
    out[1] = _mm512_unpackhi_epi64(ab01, cd01);
    out[2] = _mm512_unpacklo_epi64(ab23, cd23);
    out[3] = _mm512_unpackhi_epi64(ab23, cd23);
  }
  static void load_lines(const std::uint8_t* const lines[4], I out[4][4]) {
#pragma GCC unroll 4
    for (std::size_t b = 0; b < 4; ++b) {
      I line[4];
#pragma GCC unroll 4
      for (std::size_t o = 0; o < 4; ++o) {
        line[o] = _mm512_loadu_si512(lines[o] + 64 * b);
      }
      const I low01 = _mm512_shuffle_i32x4(line[0], line[1], 0x44);
      const I high01 = _mm512_shuffle_i32x4(line[0], line[1], 0xee);
      const I low23 = _mm512_shuffle_i32x4(line[2], line[3], 0x44);
      const I high23 = _mm512_shuffle_i32x4(line[2], line[3], 0xee);
      out[0][b] = _mm512_shuffle_i32x4(low01, low23, 0x88);
      out[1][b] = _mm512_shuffle_i32x4(low01, low23, 0xdd);
      out[2][b] = _mm512_shuffle_i32x4(high01, high23, 0x88);
      out[3][b] = _mm512_shuffle_i32x4(high01, high23, 0xdd);
    }
  }
  // Column c of all four blocks lies at 64 * (c / 16) + 16 * (c % 4) + 4 * (c % 16 / 4).
  static void interleave_blocks(const float* x, float* out) {
#pragma GCC unroll 2
    for (std::size_t half = 0; half < 32; half += 16) {
      I blocks[4];
      I columns[4];
#pragma GCC unroll 4
      for (std::size_t b = 0; b < 4; ++b) {
        blocks[b] = _mm512_loadu_si512(x + 32 * b + half);
      }
      transpose_dwords(blocks, columns);
#pragma GCC unroll 4
      for (std::size_t k = 0; k < 4; ++k) {
        _mm512_store_si512(out + 4 * half + 16 * k, columns[k]);
      }
    }
  }
  static F column_of_blocks(const float* in, std::size_t c) {
    return _mm512_broadcast_f32x4(_mm_load_ps(in + 64 * (c / 16) + 16 * (c % 4) + 4 * (c % 16 / 4)));
  }
  static Four add_blocks(Four y, F sums, std::size_t blocks) {
    const F by_block = _mm512_permutexvar_ps(_mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15), sums);
    y = _mm_add_ps(y, _mm512_castps512_ps128(by_block));
    if (blocks > 1) {
      y = _mm_add_ps(y, _mm512_extractf32x4_ps(by_block, 1));
    }
    if (blocks > 2) {
      y = _mm_add_ps(y, _mm512_extractf32x4_ps(by_block, 2));
    }
    if (blocks > 3) {
      y = _mm_add_ps(y, _mm512_extractf32x4_ps(by_block, 3));
    }
    return y;
  }
  static void store_four(float* p, Four y) { _mm_storeu_ps(p, y); }

  static I multiply(I a, I b) { return _mm512_mullo_epi32(a, b); }
  static I add(I a, I b) { return _mm512_add_epi32(a, b); }
  static F mul(F a, F b) { return _mm512_mul_ps(a, b); }
  static F add(F a, F b) { return _mm512_add_ps(a, b); }
  static F fma(F a, F b, F c) { return _mm512_fmadd_ps(a, b, c); }
};

}  // namespace
}  // namespace k3::kernels
