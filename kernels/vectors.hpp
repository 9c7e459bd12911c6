// Element by element kernels, norms and gates.
#pragma once

#include "kernels/elementary.hpp"

namespace k3::kernels {

// y[i] = f(x[i]). Each step loads before it stores, so y may be x.
template <class T, class Function>
inline void map(const float* x, std::size_t n, float* y, const Function& f) {
  for_steps<T>(n, [&](std::size_t i, auto step) { T::store(y + i, f(T::load(x + i, step)), step); });
}

// y[i] = f(a[i], b[i]); y may be either.
template <class T, class Function>
inline void map(const float* a, const float* b, std::size_t n, float* y, const Function& f) {
  for_steps<T>(n, [&](std::size_t i, auto step) { T::store(y + i, f(T::load(a + i, step), T::load(b + i, step)), step); });
}

template <class T>
struct Vectors {
  using F = typename T::F;

  static void widen_bf16(const std::uint16_t* x, std::size_t n, float* y) {
    for_steps<T>(n, [&](std::size_t i, auto step) { T::store(y + i, T::load_bf16(x + i, step), step); });
  }

  static void add(const float* x, std::size_t n, float* y) {
    map<T>(x, y, n, y, [](F a, F b) { return T::add(b, a); });
  }

  static void axpy(float a, const float* x, std::size_t n, float* y) {
    const F factor = T::set(a);
    map<T>(x, y, n, y, [&](F v, F sum) { return T::fma(factor, v, sum); });
  }

  static void scale(float a, const float* x, std::size_t n, float* y) {
    const F factor = T::set(a);
    map<T>(x, n, y, [&](F v) { return T::mul(factor, v); });
  }

  static void rms_norm(const float* x, const float* w, std::size_t n, float eps, float* y) {
    const F factor = T::set(rsqrt<T>(kernels::dot<T>(x, x, n) / static_cast<float>(n) + eps));
    map<T>(x, w, n, y, [&](F v, F weight) { return T::mul(weight, T::mul(v, factor)); });
  }

  static float normed_dot(const float* x, const float* w, std::size_t n, float eps) {
    F squares = T::set(0.0F);
    F products = T::set(0.0F);
    for_steps<T>(n, [&](std::size_t i, auto step) {
      const F v = T::load(x + i, step);
      squares = accumulate<T>(v, v, squares, step);
      products = accumulate<T>(v, T::load(w + i, step), products, step);
    });
    return rsqrt<T>(T::sum(squares) / static_cast<float>(n) + eps) * T::sum(products);
  }

  static void l2_normalise(const float* x, std::size_t n, float eps, float gain, float* y) {
    const F factor = T::set(rsqrt<T>(kernels::dot<T>(x, x, n) + eps));
    const F gains = T::set(gain);
    map<T>(x, n, y, [&](F v) { return T::mul(T::mul(v, factor), gains); });
  }

  static void sigmoid(const float* x, std::size_t n, float* y) {
    map<T>(x, n, y, [](F v) { return kernels::sigmoid<T>(v); });
  }

  static void multiply_sigmoid(const float* gate, std::size_t n, float* y) {
    map<T>(gate, y, n, y, [](F g, F v) { return T::mul(v, kernels::sigmoid<T>(g)); });
  }

  static void situ(const float* g, const float* u, std::size_t n, float beta, float linear_beta, float* y) {
    const F b = T::set(beta);
    const F l = T::set(linear_beta);
    map<T>(g, u, n, y, [&](F gate, F up) {
      const F left = T::mul(T::mul(b, kernels::tanh<T>(T::div(gate, b))), kernels::sigmoid<T>(gate));
      return T::mul(left, T::mul(l, kernels::tanh<T>(T::div(up, l))));
    });
  }

  static float exp(float x) { return T::first(kernels::exp<T>(T::set(x))); }
};

}  // namespace k3::kernels
