// What every x86-64 has.
#include <emmintrin.h>

#include "tools/bench_read_loops.hpp"

namespace k3::cli::loops {
namespace {

constexpr std::size_t accumulators = 10;

void add_floats(std::size_t rounds) {
  __m128 sums[accumulators];
  for (auto& sum : sums) sum = _mm_set1_ps(1.0F);
  __m128 a = _mm_set1_ps(0.25F);
  const __m128 b = _mm_set1_ps(0.5F);
  for (std::size_t i = 0; i < rounds; ++i) {
    __asm__ volatile("" : "+x"(a));  // or the product would be made once
#pragma GCC unroll 10
    for (auto& sum : sums) sum = _mm_add_ps(sum, _mm_mul_ps(a, b));
  }
  for (auto& sum : sums) __asm__ volatile("" : : "x"(sum));
}

void add_integers(std::size_t rounds) {
  __m128i sums[accumulators];
  for (auto& sum : sums) sum = _mm_setzero_si128();
  __m128i a = _mm_set1_epi8(3);
  const __m128i b = _mm_set1_epi8(5);
  for (std::size_t i = 0; i < rounds; ++i) {
    __asm__ volatile("" : "+x"(a));
#pragma GCC unroll 10
    for (auto& sum : sums) sum = _mm_add_epi32(sum, _mm_madd_epi16(a, b));
  }
  for (auto& sum : sums) __asm__ volatile("" : : "x"(sum));
}

struct V {
  struct Line {
    __m128i part[4];
  };
  static Line zero() { return {{_mm_setzero_si128(), _mm_setzero_si128(), _mm_setzero_si128(), _mm_setzero_si128()}}; }
  static Line mix(Line line, const std::byte* at) {
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i)
      line.part[i] = _mm_xor_si128(line.part[i], _mm_loadu_si128(reinterpret_cast<const __m128i*>(at) + i));
    return line;
  }
  static std::uint64_t fold(Line line) {
    const __m128i low = _mm_xor_si128(line.part[0], line.part[1]), high = _mm_xor_si128(line.part[2], line.part[3]);
    const __m128i both = _mm_xor_si128(low, high);
    return static_cast<std::uint64_t>(_mm_cvtsi128_si64(_mm_xor_si128(both, _mm_srli_si128(both, 8))));
  }
};

}  // namespace

const PeakLoop base_float = {"sse2 MULPS, ADDPS on float32", accumulators * 4 * 2.0, add_floats};
const PeakLoop base_int8 = {"sse2 PMADDWD on int16", accumulators * 8 * 2.0, add_integers};

const ReadLoop* base_reads() { return Reads<V>::all; }

}  // namespace k3::cli::loops
