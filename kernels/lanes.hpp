// What the kernels ask of an instruction set, and the loop that walks memory in steps of 16 lanes.
//
// A tier is a struct T in the anonymous namespace of its translation unit. Every template over it then has internal linkage: code
// compiled for AVX-512 can never be the copy that the linker keeps for everyone. For the same reason these headers hold
// templates over T only, and call nothing inline from the standard library.
//
// T has a type F, 16 floats by value, and these static functions; all are exact or round once to nearest even:
//   set(float)  first(F)
//   load(p, Full|Part) -> F        lanes that Part leaves out are +0
//   store(p, F, Full|Part)         lanes that Part leaves out are not written
//   load_bf16(p, Full|Part) -> F   the same, widened
//   load_mxfp4(p, scale) -> F      16 codes in 8 bytes, times scale
//   load_transposed(p, F out[4])   out[j] lane i = p[4*i + j]
//   keep(Full|Part, F a, F b)      a in the lanes of the step, b in the others
//   add sub mul div fma            fma(a, b, c) = a*b + c
//   max(a, b) = a > b ? a : b      min(a, b) = a < b ? a : b: so b where either is NaN
//   abs(a)  copy_sign(magnitude, sign)  select_less(a, b, x, y) = a < b ? x : y
//   power_of_two(k)                2^n for k = magic + n, -127 < n < 128 (elementary.hpp)
//   largest_bits(a, b)             the largest of the 32 as unsigned integers
//   round_to_bytes(a, b, even_odd, p)   each to the nearest integer, ties to even, -127..127; in order, or the even ones first;
//                                  returns their sum
//   round_bf16(F)                  to the nearest bf16, ties to even; NaN stays NaN
//   sum(F)  largest(F)             the fixed tree: lane j op lane j+8, then +4, +2, +1
// and the constants outputs_alone, output_tile, row_tile, wide: how many accumulators its registers hold (they never change bits).
#pragma once

#include <cstddef>
#include <cstdint>

namespace k3::kernels {

constexpr std::size_t lanes = 16;

struct Full {
  static constexpr std::size_t count = lanes;
};
struct Part {
  std::size_t count;  // 1..15: the lanes 0..count-1 take part
};

// body(i, Full) for each whole step of 16 elements, then body(i, Part) for the rest.
template <class T, class Body>
inline void for_steps(std::size_t n, const Body& body) {
  std::size_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    body(i, Full{});
  }
  if (i < n) {
    body(i, Part{n - i});
  }
}

// acc + a*b in the lanes of the step; the others keep their bits (a fma with 0 would turn -0 into +0).
template <class T, class Step>
inline typename T::F accumulate(typename T::F a, typename T::F b, typename T::F acc, Step step) {
  return T::keep(step, T::fma(a, b, acc), acc);
}

template <class T>
inline float dot(const float* a, const float* b, std::size_t n) {
  typename T::F acc = T::set(0.0F);
  for_steps<T>(n, [&](std::size_t i, auto step) { acc = accumulate<T>(T::load(a + i, step), T::load(b + i, step), acc, step); });
  return T::sum(acc);
}

}  // namespace k3::kernels
