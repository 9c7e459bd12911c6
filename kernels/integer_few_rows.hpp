// int8 activations of few rows: each weight is used a handful of times, so memory sets the pace and nothing is moved that need not
// be. The lanes are [group][4]: a vector holds T::groups groups of one output, whose sums of four columns are added across four
// outputs at once. With lanes of outputs instead, weights would have to be transposed first.
#pragma once

#include "kernels/integer_weights.hpp"

namespace k3::kernels {

constexpr std::size_t chains = 4;
// The four outputs of a tile lie a quarter of the product apart, so that each is a stream of its own from one end of its quarter to
// the other: memory follows four long streams best. Each asks for its bytes this far ahead, about what is on the way at a time.
constexpr std::size_t prefetch_ahead = 1536;

// One row's activations over T::groups groups.
template <class T>
struct GroupsOfX {
  typename T::I a, b, bias;
  typename T::F scale;

  template <class Weights>
  void load(const Block* row, std::size_t group) {
    const Block& block = row[group / block_groups];
    const std::size_t g = group % block_groups;
    Weights::activations(block.q[g], a, b);
    scale = T::spread(block.scale + g);
    if constexpr (Weights::offset != 0) {
      bias = T::multiply(T::spread(block.sum + g), T::set(-Weights::offset));
    }
  }
};

// Four outputs, `stride` rows apart (0: one output, four times over), times R rows.
template <class T, std::size_t R, class Weights>
struct FewRows {
  using I = typename T::I;
  using F = typename T::F;
  static constexpr std::size_t parts = chains / T::groups;  // vectors that hold the chains of four outputs

  const Weights& w;
  std::size_t first, stride;
  const Block* x;
  std::size_t x_stride;
  F chain[R][parts];

  const std::uint8_t* place(std::size_t output, std::size_t group) const {
    return w.row(first + output * stride) + group * Weights::group_bytes;
  }

  // Groups [group, group + T::groups), of which `count` exist; weights of those that do not are zero in `padded`.
  template <bool Tail>
  __attribute__((always_inline)) void step(std::size_t group, std::size_t part, std::size_t count) {
    GroupsOfX<T> rows[R];
#pragma GCC unroll 4
    for (std::size_t r = 0; r < R; ++r) {
      rows[r].template load<Weights>(x + r * x_stride, group);
    }
    I sums[R][4];
#pragma GCC unroll 4
    for (std::size_t i = 0; i < 4; ++i) {
      typename Weights::Bytes bytes;
      if constexpr (Tail) {
        bytes = tail_bytes(i, group);
      } else {
        prefetch<T::groups * Weights::group_bytes>(place(i, group) + prefetch_ahead);
        bytes = Weights::bytes(place(i, group));
      }
#pragma GCC unroll 4
      for (std::size_t r = 0; r < R; ++r) {
        sums[r][i] = Weights::dot(bytes, rows[r].a, rows[r].b);
      }
    }
    const F scales = Tail ? tail_scales(group, count) : w.scales4(first, stride, group);
#pragma GCC unroll 4
    for (std::size_t r = 0; r < R; ++r) {
      I sum = T::reduce4(sums[r]);
      if constexpr (Weights::offset != 0) {
        sum = T::add(sum, rows[r].bias);
      }
      const F factor = Weights::scaled_groups ? T::mul(rows[r].scale, scales) : rows[r].scale;
      const F next = T::fma(T::to_float(sum), factor, chain[r][part]);
      chain[r][part] = Tail ? T::keep_groups(count, next, chain[r][part]) : next;
    }
  }

  typename Weights::Bytes tail_bytes(std::size_t output, std::size_t group) const {
    alignas(64) std::uint8_t padded[T::groups * Weights::group_bytes] = {};
    const std::size_t left = w.row_bytes() - group * Weights::group_bytes;
    const std::uint8_t* const p = place(output, group);
    for (std::size_t i = 0; i < left && i < sizeof(padded); ++i) {
      padded[i] = p[i];
    }
    return Weights::bytes(padded);
  }
  // One group at a time from the panels' way to scales, which reads none that do not exist.
  F tail_scales(std::size_t group, std::size_t count) const {
    alignas(64) float all[4 * T::groups] = {};
    alignas(64) float some[panel_groups * T::outputs];
    if constexpr (Weights::scaled_groups) {
      for (std::size_t i = 0; i < 4; ++i) {
        w.scales(first + i * stride, 1, group, count, some);
        for (std::size_t g = 0; g < count; ++g) {
          all[4 * g + i] = some[g * T::outputs];
        }
      }
    }
    return T::load(all);
  }

  // The first `outputs` of the four count.
  void run(float* y, std::size_t y_stride, std::size_t outputs) {
    const std::size_t groups = groups_of(w.columns);
    const std::size_t whole = w.columns / group_columns / chains * chains;  // groups in whole blocks
    for (std::size_t i = 0; i < 4; ++i) {
      w.prefetch_scales(first + 1 + i * stride);  // of the row that comes next
    }
#pragma GCC unroll 16
    for (std::size_t i = 0; i < R * parts; ++i) {
      chain[i / parts][i % parts] = T::set(0.0F);
    }
    for (std::size_t g = 0; g < whole; g += chains) {
#pragma GCC unroll 4
      for (std::size_t part = 0; part < parts; ++part) {
        step<false>(g + part * T::groups, part, T::groups);
      }
    }
    for (std::size_t g = whole; g < groups; g += T::groups) {
      step<true>(g, g % chains / T::groups, groups - g < T::groups ? groups - g : T::groups);
    }
#pragma GCC unroll 4
    for (std::size_t r = 0; r < R; ++r) {
      float four[4];
      T::add_chains(chain[r], four);
      for (std::size_t i = 0; i < outputs; ++i) {
        y[r * y_stride + first + i * stride] = w.finish_one(first + i * stride, four[i]);
      }
    }
  }
};

template <class T, std::size_t R, class Weights>
inline void few_rows(const Weights& w, std::size_t out, const Block* x, float* y, std::size_t y_stride) {
  const std::size_t x_stride = blocks_of(w.columns), quarter = out / 4;
  prefetch_starts(w.row(0), quarter * w.row_bytes(), prefetch_ahead);
  for (std::size_t o = 0; o < quarter; ++o) {
    FewRows<T, R, Weights>{w, o, quarter, x, x_stride, {}}.run(y, y_stride, 4);
  }
  for (std::size_t o = 4 * quarter; o < out; ++o) {
    FewRows<T, R, Weights>{w, o, 0, x, x_stride, {}}.run(y, y_stride, 1);
  }
}

}  // namespace k3::kernels
