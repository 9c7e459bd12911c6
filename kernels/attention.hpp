// Softmax, the products of attention, and the recurrent mixer: convolution, decay and the gated delta rule.
#pragma once

#include "kernels/elementary.hpp"

namespace k3::kernels {

template <class T>
struct Attention {
  using F = typename T::F;

  // A NaN among the scores may be lost here: it still reaches the result through its own exponential and the sum.
  static float largest(const float* x, std::size_t n) {
    F acc = T::set(-infinity);
    for_steps<T>(n, [&](std::size_t i, auto step) { acc = T::keep(step, T::max(acc, T::load(x + i, step)), acc); });
    return T::largest(acc);
  }

  // x[i] = exp(x[i] - base); returns their sum.
  static float exponentials(float* x, std::size_t n, float base) {
    const F b = T::set(base);
    const F one = T::set(1.0F);
    F acc = T::set(0.0F);
    for_steps<T>(n, [&](std::size_t i, auto step) {
      const F e = exp<T>(T::sub(T::load(x + i, step), b));
      T::store(x + i, e, step);
      acc = accumulate<T>(one, e, acc, step);
    });
    return T::sum(acc);
  }

  static void softmax(float* x, std::size_t n) {
    const F sum = T::set(exponentials(x, n, largest(x, n)));
    for_steps<T>(n, [&](std::size_t i, auto step) { T::store(x + i, T::div(T::load(x + i, step), sum), step); });
  }

  static float online_softmax(float* scores, std::size_t count, float* running_max, float* running_sum) {
    const float block = largest(scores, count);
    const float m = *running_max > block ? *running_max : block;
    // While every score so far is -infinity, any finite base gives the weights 0 that -inf - -inf would turn into NaN.
    const float base = m == -infinity ? 0.0F : m;
    const float kept = T::first(exp<T>(T::set(*running_max - base)));
    const float sum = exponentials(scores, count, base);
    *running_sum = *running_sum * kept + sum;
    *running_max = m;
    return kept;
  }

  // Where several weighted sums of the same rows stand: p [.., p_stride], acc [.., acc_stride].
  struct Sums {
    const float* p;
    std::size_t p_stride;
    const float* rows;
    std::size_t stride, count;
    float* acc;
    std::size_t acc_stride;
  };

  // Q sums, Width vectors of elements side by side: each element is a chain over the rows of its own.
  template <std::size_t Q, std::size_t Width, class Step>
  static void accumulate_some(const Sums& s, std::size_t query, std::size_t at, Step step) {
    F sums[Q][Width];
#pragma GCC unroll 64
    for (std::size_t i = 0; i < Q * Width; ++i) {
      sums[i / Width][i % Width] = T::load(s.acc + (query + i / Width) * s.acc_stride + at + i % Width * lanes, step);
    }
    for (std::size_t j = 0; j < s.count; ++j) {
      F row[Width];
#pragma GCC unroll 16
      for (std::size_t k = 0; k < Width; ++k) {
        row[k] = T::load(s.rows + j * s.stride + at + k * lanes, step);
      }
#pragma GCC unroll 16
      for (std::size_t q = 0; q < Q; ++q) {
        const F weight = T::set(s.p[(query + q) * s.p_stride + j]);
#pragma GCC unroll 16
        for (std::size_t k = 0; k < Width; ++k) {
          sums[q][k] = T::fma(weight, row[k], sums[q][k]);
        }
      }
    }
#pragma GCC unroll 64
    for (std::size_t i = 0; i < Q * Width; ++i) {
      T::store(s.acc + (query + i / Width) * s.acc_stride + at + i % Width * lanes, sums[i / Width][i % Width], step);
    }
  }

  template <std::size_t Q, std::size_t Width>
  static void accumulate_wide(const Sums& s, std::size_t query, std::size_t n) {
    std::size_t i = 0;
    for (; i + Width * lanes <= n; i += Width * lanes) {
      accumulate_some<Q, Width>(s, query, i, Full{});
    }
    for_steps<T>(n - i, [&](std::size_t at, auto step) { accumulate_some<Q, 1>(s, query, i + at, step); });
  }

  static void accumulate_rows(const float* p, std::size_t p_stride, std::size_t queries, const float* rows, std::size_t stride,
                              std::size_t count, std::size_t n, float* acc, std::size_t acc_stride) {
    const Sums sums{p, p_stride, rows, stride, count, acc, acc_stride};
    std::size_t q = 0;
    for (; q + T::row_tile <= queries; q += T::row_tile) {
      accumulate_wide<T::row_tile, T::output_tile>(sums, q, n);
    }
    for (; q < queries; ++q) {
      accumulate_wide<1, T::wide>(sums, q, n);
    }
  }
};

template <class T>
struct Recurrent {
  using F = typename T::F;

  static void load_taps(const float* w, Full, F taps[4]) { T::load_transposed(w, taps); }
  static void load_taps(const float* w, Part part, F taps[4]) {
    float padded[4 * lanes] = {};
    for (std::size_t i = 0; i < 4 * part.count; ++i) {
      padded[i] = w[i];
    }
    T::load_transposed(padded, taps);
  }

  static void conv4_silu(const float* w, const float* x, const float* tail_in, std::size_t n, float* tail_out, float* y) {
    for_steps<T>(n, [&](std::size_t i, auto step) {
      F taps[4];
      load_taps(w + 4 * i, step, taps);
      // All loads before the stores: the tails may be the same memory.
      const F oldest = T::load(tail_in + i, step);
      const F older = T::load(tail_in + n + i, step);
      const F old = T::load(tail_in + 2 * n + i, step);
      const F now = T::load(x + i, step);
      F sum = T::fma(taps[0], oldest, T::set(0.0F));
      sum = T::fma(taps[1], older, sum);
      sum = T::fma(taps[2], old, sum);
      sum = T::fma(taps[3], now, sum);
      T::store(tail_out + i, older, step);
      T::store(tail_out + n + i, old, step);
      T::store(tail_out + 2 * n + i, now, step);
      T::store(y + i, silu<T>(sum), step);
    });
  }

  static void kda_decay(const float* z, const float* bias, float a, float lower_bound, std::size_t n, float* decay) {
    const F rate = T::set(a);
    const F bound = T::set(lower_bound);
    for_steps<T>(n, [&](std::size_t i, auto step) {
      const F gate = sigmoid<T>(T::mul(rate, T::add(T::load(z + i, step), T::load(bias + i, step))));
      T::store(decay + i, exp<T>(T::mul(bound, gate)), step);
    });
  }

  struct Token {
    const float *q, *k, *v, *decay;
    float beta;
    std::size_t keys, values;
  };

  // Width vectors of values. The decayed state is computed twice instead of kept: a multiplication costs less than a store, and
  // the first pass then only reads, so state_in may be state_out.
  template <std::size_t Width, class Step>
  static void step_some(const Token& t, const float* state_in, std::size_t at, float* state_out, float* out, Step step) {
    F sums[Width];
    F change[Width];
#pragma GCC unroll 16
    for (std::size_t k = 0; k < Width; ++k) {
      sums[k] = T::set(0.0F);
    }
    for (std::size_t d = 0; d < t.keys; ++d) {
      const F decay = T::set(t.decay[d]);
      const F key = T::set(t.k[d]);
#pragma GCC unroll 16
      for (std::size_t k = 0; k < Width; ++k) {
        const F state = T::mul(T::load(state_in + d * t.values + at + k * lanes, step), decay);
        sums[k] = T::fma(state, key, sums[k]);
      }
    }
#pragma GCC unroll 16
    for (std::size_t k = 0; k < Width; ++k) {
      change[k] = T::mul(T::set(t.beta), T::sub(T::load(t.v + at + k * lanes, step), sums[k]));
      sums[k] = T::set(0.0F);
    }
    for (std::size_t d = 0; d < t.keys; ++d) {
      const F decay = T::set(t.decay[d]);
      const F key = T::set(t.k[d]);
      const F query = T::set(t.q[d]);
#pragma GCC unroll 16
      for (std::size_t k = 0; k < Width; ++k) {
        const std::size_t i = d * t.values + at + k * lanes;
        const F state = T::fma(key, change[k], T::mul(T::load(state_in + i, step), decay));
        T::store(state_out + i, state, step);
        sums[k] = T::fma(state, query, sums[k]);
      }
    }
#pragma GCC unroll 16
    for (std::size_t k = 0; k < Width; ++k) {
      T::store(out + at + k * lanes, sums[k], step);
    }
  }

  static void kda_step(const float* state_in, const float* q, const float* k, const float* v, const float* decay, float beta,
                       std::size_t keys, std::size_t values, float* state_out, float* out) {
    const Token token{q, k, v, decay, beta, keys, values};
    std::size_t at = 0;
    for (; at + T::wide * lanes <= values; at += T::wide * lanes) {
      step_some<T::wide>(token, state_in, at, state_out, out, Full{});
    }
    for_steps<T>(values - at, [&](std::size_t i, auto step) { step_some<1>(token, state_in, at + i, state_out, out, step); });
  }
};

}  // namespace k3::kernels
