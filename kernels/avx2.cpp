// Two ymm registers hold the 16 lanes: 0..7 in lo, 8..15 in hi.
#include <immintrin.h>

#include "kernels/avx2_outputs.hpp"
#include "kernels/tiers.hpp"

namespace k3::kernels {
namespace {

// Eight words from 16 - t are the mask of the lanes 0..7 of t; the next eight are that of 8..15.
alignas(64) constexpr std::int32_t mask_words[32] = {-1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1};

struct Avx2 {
  struct F {
    __m256 lo, hi;
  };
  static constexpr std::size_t outputs_alone = 4;
  static constexpr std::size_t output_tile = 2;
  static constexpr std::size_t row_tile = 2;
  static constexpr std::size_t wide = 4;

  struct Mask {
    __m256i lo, hi;
  };
  static Mask mask(Part part) {
    const std::int32_t* const words = mask_words + lanes - part.count;
    return {_mm256_loadu_si256(reinterpret_cast<const __m256i*>(words)),
            _mm256_loadu_si256(reinterpret_cast<const __m256i*>(words + 8))};
  }

  static F set(float x) { return {_mm256_set1_ps(x), _mm256_set1_ps(x)}; }
  static float first(F a) { return _mm256_cvtss_f32(a.lo); }
  static F load(const float* p, Full) { return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)}; }
  static F load(const float* p, Part part) {
    const Mask m = mask(part);
    return {_mm256_maskload_ps(p, m.lo), _mm256_maskload_ps(p + 8, m.hi)};
  }
  static void store(float* p, F a, Full) {
    _mm256_storeu_ps(p, a.lo);
    _mm256_storeu_ps(p + 8, a.hi);
  }
  static void store(float* p, F a, Part part) {
    const Mask m = mask(part);
    _mm256_maskstore_ps(p, m.lo, a.lo);
    _mm256_maskstore_ps(p + 8, m.hi, a.hi);
  }
  static __m256 widen(__m128i halves) { return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(halves), 16)); }
  static F load_bf16(const std::uint16_t* p, Full) {
    return {widen(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))),
            widen(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p + 8)))};
  }
  static F load_bf16(const std::uint16_t* p, Part part) {
    std::uint16_t padded[lanes] = {};
    __builtin_memcpy(padded, p, part.count * sizeof(std::uint16_t));
    return load_bf16(padded, Full{});
  }
  static __m256 decode(__m128i codes, __m256 scale) {
    const __m256 magnitudes = _mm256_setr_ps(0.0F, 0.5F, 1.0F, 1.5F, 2.0F, 3.0F, 4.0F, 6.0F);
    const __m256i index = _mm256_cvtepu8_epi32(codes);
    // The permutation looks at the low 3 bits of each index only; bit 3 moves to the sign.
    const __m256i sign = _mm256_and_si256(_mm256_slli_epi32(index, 28), _mm256_set1_epi32(static_cast<std::int32_t>(0x80000000U)));
    return _mm256_mul_ps(_mm256_or_ps(_mm256_permutevar8x32_ps(magnitudes, index), _mm256_castsi256_ps(sign)), scale);
  }
  static F load_mxfp4(const std::uint8_t* p, float scale) {
    const __m128i pairs = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(p));
    const __m128i codes = _mm_unpacklo_epi8(pairs, _mm_srli_epi16(pairs, 4));
    const __m256 scales = _mm256_set1_ps(scale);
    return {decode(codes, scales), decode(_mm_unpackhi_epi64(codes, codes), scales)};
  }
  static __m256 join(const float* low, const float* high) {
    return _mm256_insertf128_ps(_mm256_castps128_ps256(_mm_loadu_ps(low)), _mm_loadu_ps(high), 1);
  }
  // Two 4x4 transpositions side by side: rows 0..3 in the low halves, rows 4..7 in the high ones.
  static void transpose8(const float* p, __m256 out[4]) {
    const __m256 a = join(p, p + 16);
    const __m256 b = join(p + 4, p + 20);
    const __m256 c = join(p + 8, p + 24);
    const __m256 d = join(p + 12, p + 28);
    const __m256 ab01 = _mm256_unpacklo_ps(a, b);
    const __m256 ab23 = _mm256_unpackhi_ps(a, b);
    const __m256 cd01 = _mm256_unpacklo_ps(c, d);
    const __m256 cd23 = _mm256_unpackhi_ps(c, d);
    out[0] = _mm256_shuffle_ps(ab01, cd01, 0x44);
    out[1] = _mm256_shuffle_ps(ab01, cd01, 0xee);
    out[2] = _mm256_shuffle_ps(ab23, cd23, 0x44);
    out[3] = _mm256_shuffle_ps(ab23, cd23, 0xee);
  }
  static void load_transposed(const float* p, F out[4]) {
    __m256 low[4];
    __m256 high[4];
    transpose8(p, low);
    transpose8(p + 32, high);
    for (std::size_t j = 0; j < 4; ++j) {
      out[j] = {low[j], high[j]};
    }
  }
  static F keep(Full, F a, F) { return a; }
  static F keep(Part part, F a, F b) {
    const Mask m = mask(part);
    return {_mm256_blendv_ps(b.lo, a.lo, _mm256_castsi256_ps(m.lo)), _mm256_blendv_ps(b.hi, a.hi, _mm256_castsi256_ps(m.hi))};
  }

  static F add(F a, F b) { return {_mm256_add_ps(a.lo, b.lo), _mm256_add_ps(a.hi, b.hi)}; }
  static F sub(F a, F b) { return {_mm256_sub_ps(a.lo, b.lo), _mm256_sub_ps(a.hi, b.hi)}; }
  static F mul(F a, F b) { return {_mm256_mul_ps(a.lo, b.lo), _mm256_mul_ps(a.hi, b.hi)}; }
  static F div(F a, F b) { return {_mm256_div_ps(a.lo, b.lo), _mm256_div_ps(a.hi, b.hi)}; }
  static F fma(F a, F b, F c) { return {_mm256_fmadd_ps(a.lo, b.lo, c.lo), _mm256_fmadd_ps(a.hi, b.hi, c.hi)}; }
  static F max(F a, F b) { return {_mm256_max_ps(a.lo, b.lo), _mm256_max_ps(a.hi, b.hi)}; }
  static F min(F a, F b) { return {_mm256_min_ps(a.lo, b.lo), _mm256_min_ps(a.hi, b.hi)}; }
  static F abs(F a) {
    const __m256 sign = _mm256_set1_ps(-0.0F);
    return {_mm256_andnot_ps(sign, a.lo), _mm256_andnot_ps(sign, a.hi)};
  }
  static F copy_sign(F magnitude, F sign) {
    const __m256 bit = _mm256_set1_ps(-0.0F);
    const F size = abs(magnitude);
    return {_mm256_or_ps(size.lo, _mm256_and_ps(bit, sign.lo)), _mm256_or_ps(size.hi, _mm256_and_ps(bit, sign.hi))};
  }
  static F select_less(F a, F b, F x, F y) {
    return {_mm256_blendv_ps(y.lo, x.lo, _mm256_cmp_ps(a.lo, b.lo, _CMP_LT_OQ)),
            _mm256_blendv_ps(y.hi, x.hi, _mm256_cmp_ps(a.hi, b.hi, _CMP_LT_OQ))};
  }
  static __m256 power_of_two(__m256 k) {
    const __m256i biased = _mm256_add_epi32(_mm256_castps_si256(k), _mm256_set1_epi32(127));
    return _mm256_castsi256_ps(_mm256_slli_epi32(biased, 23));
  }
  static F power_of_two(F k) { return {power_of_two(k.lo), power_of_two(k.hi)}; }

  static std::uint32_t largest_bits(F a, F b) {
    const __m256i eight = _mm256_max_epu32(_mm256_max_epu32(_mm256_castps_si256(a.lo), _mm256_castps_si256(a.hi)),
                                           _mm256_max_epu32(_mm256_castps_si256(b.lo), _mm256_castps_si256(b.hi)));
    const __m128i four = _mm_max_epu32(_mm256_castsi256_si128(eight), _mm256_extracti128_si256(eight, 1));
    const __m128i two = _mm_max_epu32(four, _mm_unpackhi_epi64(four, four));
    return static_cast<std::uint32_t>(_mm_cvtsi128_si32(_mm_max_epu32(two, _mm_shuffle_epi32(two, 1))));
  }
  static __m256i round_to_int(__m256 a) {
    return _mm256_cvttps_epi32(_mm256_round_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
  }
  static std::int32_t round_to_bytes(F a, F b, bool even_odd, std::int8_t* p) {
    const __m256i q[4] = {round_to_int(a.lo), round_to_int(a.hi), round_to_int(b.lo), round_to_int(b.hi)};
    // Packing works in each 128 bits alone: the words come out as 0-3, 8-11, 16-19, 24-27 and 4-7, 12-15, 20-23, 28-31.
    const __m256i packed = _mm256_packs_epi16(_mm256_packs_epi32(q[0], q[1]), _mm256_packs_epi32(q[2], q[3]));
    __m256i bytes = _mm256_permutevar8x32_epi32(packed, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
    if (even_odd) {
      const __m256i apart = _mm256_setr_epi8(0, 2, 4, 6, 8, 10, 12, 14, 1, 3, 5, 7, 9, 11, 13, 15, 0, 2, 4, 6, 8, 10, 12, 14, 1, 3,
                                             5, 7, 9, 11, 13, 15);
      bytes = _mm256_permute4x64_epi64(_mm256_shuffle_epi8(bytes, apart), 0xd8);
    }
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), bytes);
    const __m256i eight = _mm256_add_epi32(_mm256_add_epi32(q[0], q[1]), _mm256_add_epi32(q[2], q[3]));
    const __m128i four = _mm_add_epi32(_mm256_castsi256_si128(eight), _mm256_extracti128_si256(eight, 1));
    const __m128i two = _mm_add_epi32(four, _mm_unpackhi_epi64(four, four));
    return _mm_cvtsi128_si32(_mm_add_epi32(two, _mm_shuffle_epi32(two, 1)));
  }
  static __m256 round_bf16(__m256 a) {
    const __m256i x = _mm256_castps_si256(a);
    const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(x, 16), _mm256_set1_epi32(1));
    const __m256i rounded = _mm256_add_epi32(x, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff)));
    const __m256i quiet = _mm256_or_si256(x, _mm256_set1_epi32(0x00400000));
    const __m256i nan = _mm256_castps_si256(_mm256_cmp_ps(a, a, _CMP_UNORD_Q));
    const __m256i chosen = _mm256_blendv_epi8(rounded, quiet, nan);
    return _mm256_castsi256_ps(_mm256_and_si256(chosen, _mm256_set1_epi32(static_cast<std::int32_t>(0xffff0000U))));
  }
  static F round_bf16(F a) { return {round_bf16(a.lo), round_bf16(a.hi)}; }

  static float sum(F a) {
    const __m256 eight = _mm256_add_ps(a.lo, a.hi);
    const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
  }
  static float largest(F a) {
    const __m256 eight = _mm256_max_ps(a.lo, a.hi);
    const __m128 four = _mm_max_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    const __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)));
  }
};

}  // namespace

constinit const Table avx2_table = make_table<Avx2, Avx2Outputs>("avx2");

}  // namespace k3::kernels
