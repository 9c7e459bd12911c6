// 32-byte registers.
#include <immintrin.h>

#include "tools/bench_read_loops.hpp"

namespace k3::cli::loops {
namespace {

constexpr std::size_t accumulators = 10;

void add_floats(std::size_t rounds) {
  __m256 sums[accumulators];
  for (auto& sum : sums) sum = _mm256_set1_ps(1.0F);
  __m256 a = _mm256_set1_ps(0.25F);
  const __m256 b = _mm256_set1_ps(0.5F);
  for (std::size_t i = 0; i < rounds; ++i) {
    __asm__ volatile("" : "+x"(a));
#pragma GCC unroll 10
    for (auto& sum : sums) sum = _mm256_fmadd_ps(a, b, sum);
  }
  for (auto& sum : sums) __asm__ volatile("" : : "x"(sum));
}

// Sums of four products, as the multiplication by pairs alone would overflow its 16 bits.
void add_integers(std::size_t rounds) {
  __m256i sums[accumulators];
  for (auto& sum : sums) sum = _mm256_setzero_si256();
  __m256i a = _mm256_set1_epi8(3);
  const __m256i b = _mm256_set1_epi8(5), ones = _mm256_set1_epi16(1);
  for (std::size_t i = 0; i < rounds; ++i) {
#pragma GCC unroll 10
    for (auto& sum : sums) {
      __asm__ volatile("" : "+x"(a));
      sum = _mm256_add_epi32(sum, _mm256_madd_epi16(_mm256_maddubs_epi16(a, b), ones));
    }
  }
  for (auto& sum : sums) __asm__ volatile("" : : "x"(sum));
}

struct V {
  struct Line {
    __m256i low, high;
  };
  static Line zero() { return {_mm256_setzero_si256(), _mm256_setzero_si256()}; }
  static Line mix(Line line, const std::byte* at) {
    const auto* words = reinterpret_cast<const __m256i*>(at);
    return {_mm256_xor_si256(line.low, _mm256_loadu_si256(words)), _mm256_xor_si256(line.high, _mm256_loadu_si256(words + 1))};
  }
  static std::uint64_t fold(Line line) {
    const __m256i both = _mm256_xor_si256(line.low, line.high);
    const __m128i half = _mm_xor_si128(_mm256_castsi256_si128(both), _mm256_extracti128_si256(both, 1));
    return static_cast<std::uint64_t>(_mm_cvtsi128_si64(_mm_xor_si128(half, _mm_srli_si128(half, 8))));
  }
};

}  // namespace

const PeakLoop avx2_float = {"avx2 VFMADD on float32", accumulators * 8 * 2.0, add_floats};
const PeakLoop avx2_int8 = {"avx2 VPMADDUBSW, VPMADDWD, VPADDD", accumulators * 32 * 2.0, add_integers};

const ReadLoop* avx2_reads() { return Reads<V>::all; }

}  // namespace k3::cli::loops
