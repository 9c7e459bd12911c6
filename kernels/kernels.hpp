// The table of kernels, one implementation per instruction set, all bit-identical.
//
// The one arithmetic (every tier, every row count):
// * A sum over n elements uses 16 virtual lanes: element i goes to lane i mod 16 by fma, ascending; the lanes are then added
//   as a fixed tree: lane j += lane j+8 (j < 8), then +4, then +2, then +1.
// * exp, sigmoid, tanh, rsqrt are our own polynomials (elementary.hpp), the same operations on every tier. No libm.
// * The exact products widen weights exactly to float32 (bf16, MXFP4); activations stay float32.
// * The fast products have one chain of sums for each pair of row and output, in an order of their own (below), which leaves the
//   multiplication to integer or bf16 units where a machine has them.
//
// Pure functions over memory: no threads, no I/O, no allocation. Unless said otherwise inputs and outputs do not overlap,
// nothing needs alignment, and sizes may be any number, multiples of 16 or not. NaN and infinity flow through.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace k3::kernels {

// Columns that share one scale when activations are rounded to int8.
constexpr std::size_t group_columns = 32;

constexpr std::size_t block_groups = 4;

// Groups and blocks in a row; the last group is filled up with zeros, and groups that do not exist are not read.
constexpr std::size_t groups_of(std::size_t columns) { return (columns + group_columns - 1) / group_columns; }
constexpr std::size_t blocks_of(std::size_t columns) { return (groups_of(columns) + block_groups - 1) / block_groups; }

// 128 activations of a row, in groups of 32: x = scale * q, rounded to nearest even with scale = max|x| / 127.
struct Block {
  std::int8_t q[block_groups][group_columns];  // of a group, in the order that quantise was asked for
  float scale[block_groups];                   // 0 where max|x| < 2^-100; NaN where an activation is no finite number (q is 0 then)
  std::int32_t sum[block_groups];              // of q
};

// Weights of half a byte have even columns in the low nibbles: their activations lie as the 16 even columns, then the 16 odd ones.
enum class Order { natural, even_odd };

struct Table {
  const char* name;  // "scalar", "avx2", "avx512", "amx"

  // --- exact products ---

  // y[r*y_stride + o] = sum_i w[o*columns + i] * x[r*x_stride + i], for o < out, r < rows. Strides in elements.
  void (*matmul_bf16)(const std::uint16_t* w, std::size_t out, std::size_t columns, const float* x, std::size_t rows,
                      std::size_t x_stride, float* y, std::size_t y_stride);
  void (*matmul_f32)(const float* w, std::size_t out, std::size_t columns, const float* x, std::size_t rows, std::size_t x_stride,
                     float* y, std::size_t y_stride);
  // MXFP4: packed [out, columns/2], even column in the low nibble; scale [out, columns/32], value = e2m1 * 2^(scale-127).
  // columns is a multiple of 32. Scale 255 is NaN (E8M0).
  void (*matmul_mxfp4)(const std::uint8_t* packed, const std::uint8_t* scale, std::size_t out, std::size_t columns, const float* x,
                       std::size_t rows, std::size_t x_stride, float* y, std::size_t y_stride);

  // --- fast products: y[r*y_stride + o] = sum_i w[o, i] * x[r, i] with x rounded as said ---
  // int8 activations: the sum of each group is an exact integer s; then chain = fma(float(s), scale of x [* scale of w], chain)
  // with one chain for each remainder of the group's number by 4, all ascending from +0, at last (chain 0 + chain 1) + (chain 2 +
  // chain 3). x [rows, blocks_of(columns)].

  // Rounds x[0..columns) into the groups of `out`, a row's blocks, from column `first` on (a multiple of 32).
  void (*quantise)(const float* x, std::size_t columns, Order order, Block* out, std::size_t first);
  // MXFP4 as above; x in even_odd order. The scale of a group is (scale of x) * (scale of w / 2), for codes are doubled to be
  // whole. Scale 255 counts as infinity here: the result is no finite number either way.
  void (*fast_mxfp4)(const std::uint8_t* packed, const std::uint8_t* scale, std::size_t out, std::size_t columns, const Block* x,
                     std::size_t rows, float* y, std::size_t y_stride);
  // w [out, columns] in -127..127, scale [out], by which the final sum is multiplied; x in natural order.
  void (*fast_int8)(const std::int8_t* w, const float* scale, std::size_t out, std::size_t columns, const Block* x,
                    std::size_t rows, float* y, std::size_t y_stride);
  // w [out, columns/2], value = nibble - 8; scale [out, columns/64] for 64 columns each, columns a multiple of 64; x in even_odd
  // order. The scale of a group is (scale of x) * (scale of w).
  void (*fast_int4)(const std::uint8_t* w, const float* scale, std::size_t out, std::size_t columns, const Block* x,
                    std::size_t rows, float* y, std::size_t y_stride);

  // Rounds to the nearest bf16, ties to even, and widens again. NaN stays NaN. May be in place.
  void (*round_bf16)(const float* x, std::size_t n, float* y);
  // x [rows, columns] as round_bf16 leaves it. Per 32 columns (the last ones filled up with zeros): e sums the even columns and o
  // the odd ones by fma, ascending from +0; then y += e + o. It is the order of the TDPBF16PS instruction, whose flushing of
  // denormals is not part of it: the tier amx takes another way where one could occur.
  void (*fast_bf16)(const std::uint16_t* w, std::size_t out, std::size_t columns, const float* x, std::size_t rows,
                    std::size_t x_stride, float* y, std::size_t y_stride);

  // --- vectors ---

  void (*widen_bf16)(const std::uint16_t* x, std::size_t n, float* y);
  float (*dot)(const float* a, const float* b, std::size_t n);
  void (*add)(const float* x, std::size_t n, float* y);             // y += x
  void (*axpy)(float a, const float* x, std::size_t n, float* y);   // y = fma(a, x, y)
  void (*scale)(float a, const float* x, std::size_t n, float* y);  // y = a * x; may be in place
  // Root-mean-square normalisation: y = w * (x * rsqrt(sum(x^2)/n + eps)); may be in place.
  void (*rms_norm)(const float* x, const float* w, std::size_t n, float eps, float* y);
  // rsqrt(sum(x^2)/n + eps) * dot(x, w): the score of one candidate of an attention residual.
  float (*normed_dot)(const float* x, const float* w, std::size_t n, float eps);
  // y = x * rsqrt(sum(x^2) + eps) * gain; may be in place. eps is added to the sum, not to the mean.
  void (*l2_normalise)(const float* x, std::size_t n, float eps, float gain, float* y);
  void (*softmax)(float* x, std::size_t n);                              // in place; n >= 1; max subtracted, then e/sum
  void (*sigmoid)(const float* x, std::size_t n, float* y);              // may be in place
  void (*multiply_sigmoid)(const float* gate, std::size_t n, float* y);  // y *= sigmoid(gate)
  // y = [beta*tanh(g/beta)*sigmoid(g)] * [linear_beta*tanh(u/linear_beta)]; may be in place on g or u.
  void (*situ)(const float* g, const float* u, std::size_t n, float beta, float linear_beta, float* y);

  // Depthwise causal convolution of width 4, then SiLU, one token: y[c] = silu(sum_j w[c*4+j] * x_{t-3+j}[c]), j ascending by fma.
  // tail_in/tail_out [3, n]: the inputs x_{t-3}, x_{t-2}, x_{t-1} before and after this token; they may be the same memory.
  void (*conv4_silu)(const float* w, const float* x, const float* tail_in, std::size_t n, float* tail_out, float* y);
  // decay[d] = exp(lower_bound * sigmoid(a * (z[d] + bias[d]))), a = exp(A_log) of the head.
  void (*kda_decay)(const float* z, const float* bias, float a, float lower_bound, std::size_t n, float* decay);
  // One token of the gated delta rule for one head. state [keys, values] row-major; state_in and state_out may be the same memory.
  //   S = diag(decay) S_in;  u = S^T k;  S += k (beta (v - u))^T;  out = S^T q  -- sums over keys ascending by fma, one chain per
  //   value.
  void (*kda_step)(const float* state_in, const float* q, const float* k, const float* v, const float* decay, float beta,
                   std::size_t keys, std::size_t values, float* state_out, float* out);

  // acc[q*acc_stride + i] += sum over j ascending of p[q*p_stride + j] * rows[j*stride + i], by fma, for i < n, q < queries.
  void (*accumulate_rows)(const float* p, std::size_t p_stride, std::size_t queries, const float* rows, std::size_t stride,
                          std::size_t count, std::size_t n, float* acc, std::size_t acc_stride);
  // One block of online softmax: m = max(*running_max, max(scores)); scores[j] = exp(scores[j] - m);
  // *running_sum = *running_sum * exp(*running_max - m) + sum(scores); returns exp(old max - m), by which the caller scales what it
  // has accumulated. First block: *running_max = -inf, *running_sum = 0 (returns 0).
  float (*online_softmax)(float* scores, std::size_t count, float* running_max, float* running_sum);
  float (*exp)(float x);
};

// All tiers this build has, best first.
std::span<const Table* const> tables();
// Whether this machine can run it: processor, system, and for amx that its products prove right on a few samples.
bool supported(const Table& table);
// The best supported tier; `name` ("" or "auto" = best) forces one. nullptr when the name is unknown or the machine lacks it.
const Table* select(std::string_view name);
const Table* find(std::string_view name);  // by name, supported or not

}  // namespace k3::kernels
