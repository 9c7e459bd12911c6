// exp, sigmoid, tanh and rsqrt from additions, multiplications, fma and division alone, so that every tier gives the same bits.
// The polynomials are minimax fits (Remez, relative error of the whole function) with coefficients rounded to float32.
#pragma once

#include "kernels/lanes.hpp"

namespace k3::kernels {

// 1.5 * 2^23: adding it to |x| < 2^22 rounds x to an integer n, half to even, and leaves n in the low bits of the sum.
constexpr float magic = 12582912.0F;
constexpr float infinity = __builtin_huge_valf();

// e^x, within 1 ulp; denormal results are rounded once. x = n ln 2 + r with |r| <= ln(2)/2, e^r = 1 + r + r^2 P(r), P of degree 5
// (5e-11 of e^r).
template <class T>
inline typename T::F exp(typename T::F x) {
  // Beyond these the result is 0 or infinity, from inside the range of n. x is the second operand, so NaN passes.
  x = T::min(T::set(89.0F), T::max(T::set(-104.5F), x));
  const auto k = T::fma(x, T::set(0x1.715476p+0F), T::set(magic));
  const auto n = T::sub(k, T::set(magic));
  // ln 2 in two parts: 16 bits times |n| <= 151 is exact, and so is the first difference.
  auto r = T::fma(n, T::set(-0x1.62e4p-1F), x);
  r = T::fma(n, T::set(-0x1.7f7d1cp-20F), r);
  auto p = T::set(0x1.9f0898p-13F);
  p = T::fma(p, r, T::set(0x1.6d8d02p-10F));
  p = T::fma(p, r, T::set(0x1.11127p-7F));
  p = T::fma(p, r, T::set(0x1.55548ep-5F));
  p = T::fma(p, r, T::set(0x1.555554p-3F));
  p = T::fma(p, r, T::set(0.5F));
  p = T::add(T::fma(p, T::mul(r, r), r), T::set(1.0F));
  // n reaches 128 and -151, which no float exponent holds: scale by 2^n in two halves. Only the second can round.
  const auto half = T::fma(n, T::set(0.5F), T::set(magic));
  const auto rest = T::add(T::sub(n, T::sub(half, T::set(magic))), T::set(magic));
  return T::mul(T::mul(p, T::power_of_two(half)), T::power_of_two(rest));
}

// 1 / (1 + e^-x), from e^-|x| so that neither side overflows or cancels.
template <class T>
inline typename T::F sigmoid(typename T::F x) {
  const auto one = T::set(1.0F);
  const auto zero = T::set(0.0F);
  const auto e = exp<T>(T::sub(zero, T::abs(x)));
  return T::div(T::select_less(x, zero, e, one), T::add(one, e));
}

// x sigmoid(x). NaN at -infinity, as the product says.
template <class T>
inline typename T::F silu(typename T::F x) {
  return T::mul(x, sigmoid<T>(x));
}

// Below 0.625 x + x^3 P(x^2), which keeps the relative error small near 0 (P of degree 5, 6e-10 of tanh up to 0.7);
// from there 1 - 2 / (e^2|x| + 1), which saturates at 1.
template <class T>
inline typename T::F tanh(typename T::F x) {
  const auto z = T::mul(x, x);
  auto p = T::set(0x1.f28bdcp-10F);
  p = T::fma(p, z, T::set(-0x1.029c7ap-7F));
  p = T::fma(p, z, T::set(0x1.617fa4p-6F));
  p = T::fma(p, z, T::set(-0x1.b9bae4p-5F));
  p = T::fma(p, z, T::set(0x1.110f4cp-3F));
  p = T::fma(p, z, T::set(-0x1.55555p-2F));
  const auto near = T::fma(T::mul(p, z), x, x);
  const auto size = T::abs(x);
  const auto one = T::set(1.0F);
  const auto far = T::sub(one, T::div(T::set(2.0F), T::add(exp<T>(T::add(size, size)), one)));
  return T::copy_sign(T::select_less(size, T::set(0.625F), near, far), x);
}

// Square root and division round correctly everywhere, so their composition is already the same on every tier.
template <class T>
inline float rsqrt(float x) {
  return 1.0F / __builtin_sqrtf(x);
}

}  // namespace k3::kernels
