// The tables of the tiers, and how a tier makes its own.
#pragma once

#include "kernels/attention.hpp"
#include "kernels/bf16_products.hpp"
#include "kernels/integer_products.hpp"
#include "kernels/kernels.hpp"
#include "kernels/matmul.hpp"
#include "kernels/quantise.hpp"
#include "kernels/vectors.hpp"

namespace k3::kernels {

extern const Table scalar_table;
extern const Table avx2_table;
extern const Table avx512_table;
extern const Table amx_table;

// Whether the fast products of a table give the bits of another's on a few small samples: for hardware whose arithmetic is
// known by measurement rather than by its manual.
bool fast_products_agree(const Table& a, const Table& b);

template <class T>
struct Products {
  static void bf16(const std::uint16_t* w, std::size_t out, std::size_t columns, const float* x, std::size_t rows,
                   std::size_t x_stride, float* y, std::size_t y_stride) {
    matmul<T>(WeightsBf16<T>{w, columns}, out, x, rows, x_stride, y, y_stride);
  }
  static void f32(const float* w, std::size_t out, std::size_t columns, const float* x, std::size_t rows, std::size_t x_stride,
                  float* y, std::size_t y_stride) {
    matmul<T>(WeightsF32<T>{w, columns}, out, x, rows, x_stride, y, y_stride);
  }
  static void mxfp4(const std::uint8_t* packed, const std::uint8_t* scale, std::size_t out, std::size_t columns, const float* x,
                    std::size_t rows, std::size_t x_stride, float* y, std::size_t y_stride) {
    matmul<T>(WeightsMxfp4<T>{packed, scale, columns}, out, x, rows, x_stride, y, y_stride);
  }
};

template <class O>
struct FastProducts {
  static void mxfp4(const std::uint8_t* packed, const std::uint8_t* scale, std::size_t out, std::size_t columns, const Block* x,
                    std::size_t rows, float* y, std::size_t y_stride) {
    integer_product<O>(Mxfp4Weights<O>(packed, scale, columns), out, x, rows, y, y_stride);
  }
  static void int8(const std::int8_t* w, const float* scale, std::size_t out, std::size_t columns, const Block* x, std::size_t rows,
                   float* y, std::size_t y_stride) {
    integer_product<O>(Int8Weights<O>{w, scale, columns}, out, x, rows, y, y_stride);
  }
  static void int4(const std::uint8_t* w, const float* scale, std::size_t out, std::size_t columns, const Block* x,
                   std::size_t rows, float* y, std::size_t y_stride) {
    integer_product<O>(Int4Weights<O>(w, scale, columns), out, x, rows, y, y_stride);
  }
  static void bf16(const std::uint16_t* w, std::size_t out, std::size_t columns, const float* x, std::size_t rows,
                   std::size_t x_stride, float* y, std::size_t y_stride) {
    bf16_product<O>(w, out, columns, x, rows, x_stride, y, y_stride);
  }
};

// T has lanes of elements, O lanes of outputs.
// consteval: the table is in the file's constant data. An initialiser that ran at start-up would be code of the tier itself, on a
// machine that may lack it.
template <class T, class O, class Fast = FastProducts<O>>
consteval Table make_table(const char* name) {
  return Table{.name = name,
               .matmul_bf16 = Products<T>::bf16,
               .matmul_f32 = Products<T>::f32,
               .matmul_mxfp4 = Products<T>::mxfp4,
               .quantise = Quantise<T>::row,
               .fast_mxfp4 = Fast::mxfp4,
               .fast_int8 = Fast::int8,
               .fast_int4 = Fast::int4,
               .round_bf16 = Quantise<T>::round_bf16,
               .fast_bf16 = Fast::bf16,
               .widen_bf16 = Vectors<T>::widen_bf16,
               .dot = dot<T>,
               .add = Vectors<T>::add,
               .axpy = Vectors<T>::axpy,
               .scale = Vectors<T>::scale,
               .rms_norm = Vectors<T>::rms_norm,
               .normed_dot = Vectors<T>::normed_dot,
               .l2_normalise = Vectors<T>::l2_normalise,
               .softmax = Attention<T>::softmax,
               .sigmoid = Vectors<T>::sigmoid,
               .multiply_sigmoid = Vectors<T>::multiply_sigmoid,
               .situ = Vectors<T>::situ,
               .conv4_silu = Recurrent<T>::conv4_silu,
               .kda_decay = Recurrent<T>::kda_decay,
               .kda_step = Recurrent<T>::kda_step,
               .accumulate_rows = Attention<T>::accumulate_rows,
               .online_softmax = Attention<T>::online_softmax,
               .exp = Vectors<T>::exp};
}

}  // namespace k3::kernels
