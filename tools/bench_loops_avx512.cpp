// 64-byte registers; the bf16 and the int8 instruction are extensions that a machine may lack.
#include <immintrin.h>

#include "tools/bench_read_loops.hpp"

namespace k3::cli::loops {
namespace {

constexpr std::size_t accumulators = 16;

void add_floats(std::size_t rounds) {
  __m512 sums[accumulators];
  for (auto& sum : sums) sum = _mm512_set1_ps(1.0F);
  __m512 a = _mm512_set1_ps(0.25F);
  const __m512 b = _mm512_set1_ps(0.5F);
  for (std::size_t i = 0; i < rounds; ++i) {
    __asm__ volatile("" : "+v"(a));
#pragma GCC unroll 16
    for (auto& sum : sums) sum = _mm512_fmadd_ps(a, b, sum);
  }
  for (auto& sum : sums) __asm__ volatile("" : : "v"(sum));
}

void add_bf16(std::size_t rounds) {
  __m512 sums[accumulators];
  for (auto& sum : sums) sum = _mm512_set1_ps(1.0F);
  __m512i a = _mm512_set1_epi16(0x3e80);  // 0.25
  const __m512i b = _mm512_set1_epi16(0x3f00);
  for (std::size_t i = 0; i < rounds; ++i) {
    __asm__ volatile("" : "+v"(a));
#pragma GCC unroll 16
    for (auto& sum : sums) sum = _mm512_dpbf16_ps(sum, (__m512bh)a, (__m512bh)b);
  }
  for (auto& sum : sums) __asm__ volatile("" : : "v"(sum));
}

void add_integers(std::size_t rounds) {
  __m512i sums[accumulators];
  for (auto& sum : sums) sum = _mm512_setzero_si512();
  __m512i a = _mm512_set1_epi8(3);
  const __m512i b = _mm512_set1_epi8(5);
  for (std::size_t i = 0; i < rounds; ++i) {
    __asm__ volatile("" : "+v"(a));
#pragma GCC unroll 16
    for (auto& sum : sums) sum = _mm512_dpbusd_epi32(sum, a, b);
  }
  for (auto& sum : sums) __asm__ volatile("" : : "v"(sum));
}

struct V {
  using Line = __m512i;
  static Line zero() { return _mm512_setzero_si512(); }
  static Line mix(Line line, const std::byte* at) { return _mm512_xor_si512(line, _mm512_loadu_si512(at)); }
  static std::uint64_t fold(Line line) {
    std::uint64_t words[8], sum = 0;
    _mm512_storeu_si512(words, line);
    for (const std::uint64_t word : words) sum ^= word;
    return sum;
  }
};

}  // namespace

const PeakLoop avx512_float = {"avx512 VFMADD on float32", accumulators * 16 * 2.0, add_floats};
const PeakLoop avx512_bf16 = {"avx512 VDPBF16PS", accumulators * 32 * 2.0, add_bf16};
const PeakLoop avx512_int8 = {"avx512 VPDPBUSD", accumulators * 64 * 2.0, add_integers};

const ReadLoop* avx512_reads() { return Reads<V>::all; }

}  // namespace k3::cli::loops
