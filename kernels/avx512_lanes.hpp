// One zmm register holds the 16 lanes.
#pragma once

#include <immintrin.h>

#include "kernels/lanes.hpp"

namespace k3::kernels {
namespace {

struct Avx512 {
  using F = __m512;
  static constexpr std::size_t outputs_alone = 8;
  static constexpr std::size_t output_tile = 4;
  static constexpr std::size_t row_tile = 4;
  static constexpr std::size_t wide = 8;

  static __mmask16 mask(Part part) { return static_cast<__mmask16>((1U << part.count) - 1U); }

  static F set(float x) { return _mm512_set1_ps(x); }
  static float first(F a) { return _mm512_cvtss_f32(a); }
  static F load(const float* p, Full) { return _mm512_loadu_ps(p); }
  static F load(const float* p, Part part) { return _mm512_maskz_loadu_ps(mask(part), p); }
  static void store(float* p, F a, Full) { _mm512_storeu_ps(p, a); }
  static void store(float* p, F a, Part part) { _mm512_mask_storeu_ps(p, mask(part), a); }
  static F widen(__m256i halves) { return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(halves), 16)); }
  static F load_bf16(const std::uint16_t* p, Full) { return widen(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p))); }
  static F load_bf16(const std::uint16_t* p, Part part) { return widen(_mm256_maskz_loadu_epi16(mask(part), p)); }
  static F load_mxfp4(const std::uint8_t* p, float scale) {
    const F values =
        _mm512_setr_ps(0.0F, 0.5F, 1.0F, 1.5F, 2.0F, 3.0F, 4.0F, 6.0F, -0.0F, -0.5F, -1.0F, -1.5F, -2.0F, -3.0F, -4.0F, -6.0F);
    const __m128i pairs = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(p));
    // The permutation looks at the low 4 bits of each index only, so the low nibble needs no mask.
    const __m128i codes = _mm_unpacklo_epi8(pairs, _mm_srli_epi16(pairs, 4));
    return _mm512_mul_ps(_mm512_permutexvar_ps(_mm512_cvtepu8_epi32(codes), values), _mm512_set1_ps(scale));
  }
  static void load_transposed(const float* p, F out[4]) {
    const __m512i even = _mm512_setr_epi32(0, 4, 8, 12, 16, 20, 24, 28, 1, 5, 9, 13, 17, 21, 25, 29);
    const __m512i odd = _mm512_add_epi32(even, _mm512_set1_epi32(2));
    const F a = _mm512_loadu_ps(p);
    const F b = _mm512_loadu_ps(p + 16);
    const F c = _mm512_loadu_ps(p + 32);
    const F d = _mm512_loadu_ps(p + 48);
    const F low01 = _mm512_permutex2var_ps(a, even, b);
    const F low23 = _mm512_permutex2var_ps(a, odd, b);
    const F high01 = _mm512_permutex2var_ps(c, even, d);
    const F high23 = _mm512_permutex2var_ps(c, odd, d);
    out[0] = _mm512_shuffle_f32x4(low01, high01, 0x44);
    out[1] = _mm512_shuffle_f32x4(low01, high01, 0xee);
    out[2] = _mm512_shuffle_f32x4(low23, high23, 0x44);
    out[3] = _mm512_shuffle_f32x4(low23, high23, 0xee);
  }
  static F keep(Full, F a, F) { return a; }
  static F keep(Part part, F a, F b) { return _mm512_mask_blend_ps(mask(part), b, a); }

  static F add(F a, F b) { return _mm512_add_ps(a, b); }
  static F sub(F a, F b) { return _mm512_sub_ps(a, b); }
  static F mul(F a, F b) { return _mm512_mul_ps(a, b); }
  static F div(F a, F b) { return _mm512_div_ps(a, b); }
  static F fma(F a, F b, F c) { return _mm512_fmadd_ps(a, b, c); }
  static F max(F a, F b) { return _mm512_max_ps(a, b); }
  static F min(F a, F b) { return _mm512_min_ps(a, b); }
  static F abs(F a) { return _mm512_andnot_ps(_mm512_set1_ps(-0.0F), a); }
  static F copy_sign(F magnitude, F sign) { return _mm512_or_ps(abs(magnitude), _mm512_and_ps(_mm512_set1_ps(-0.0F), sign)); }
  static F select_less(F a, F b, F x, F y) { return _mm512_mask_blend_ps(_mm512_cmp_ps_mask(a, b, _CMP_LT_OQ), y, x); }
  static F power_of_two(F k) {
    const __m512i biased = _mm512_add_epi32(_mm512_castps_si512(k), _mm512_set1_epi32(127));
    return _mm512_castsi512_ps(_mm512_slli_epi32(biased, 23));
  }

  static std::uint32_t largest_bits(F a, F b) {
    return _mm512_reduce_max_epu32(_mm512_max_epu32(_mm512_castps_si512(a), _mm512_castps_si512(b)));
  }
  static std::int32_t round_to_bytes(F a, F b, bool even_odd, std::int8_t* p) {
    const __m512i low = _mm512_cvt_roundps_epi32(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    const __m512i high = _mm512_cvt_roundps_epi32(b, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    __m256i bytes = _mm256_set_m128i(_mm512_cvtepi32_epi8(high), _mm512_cvtepi32_epi8(low));
    if (even_odd) {
      bytes = _mm256_set_m128i(_mm256_cvtepi16_epi8(_mm256_srli_epi16(bytes, 8)), _mm256_cvtepi16_epi8(bytes));
    }
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), bytes);
    return _mm512_reduce_add_epi32(_mm512_add_epi32(low, high));
  }
  static F round_bf16(F a) {
    const __m512i x = _mm512_castps_si512(a);
    const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(x, 16), _mm512_set1_epi32(1));
    const __m512i rounded = _mm512_add_epi32(x, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff)));
    const __m512i quiet = _mm512_or_si512(x, _mm512_set1_epi32(0x00400000));
    const __m512i chosen = _mm512_mask_blend_epi32(_mm512_cmp_ps_mask(a, a, _CMP_UNORD_Q), rounded, quiet);
    return _mm512_castsi512_ps(_mm512_and_si512(chosen, _mm512_set1_epi32(static_cast<std::int32_t>(0xffff0000U))));
  }

  static float sum(F a) {
    const __m256 eight = _mm256_add_ps(_mm512_castps512_ps256(a), _mm512_extractf32x8_ps(a, 1));
    const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
  }
  static float largest(F a) {
    const __m256 eight = _mm256_max_ps(_mm512_castps512_ps256(a), _mm512_extractf32x8_ps(a, 1));
    const __m128 four = _mm_max_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    const __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)));
  }
};

}  // namespace
}  // namespace k3::kernels
