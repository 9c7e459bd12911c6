// What the fast products ask of an instruction set: vectors whose lanes are outputs. One lane then is one output's chain, however
// wide the vector is, so its width cannot change bits.
//
// A tier's struct T has a constant `outputs`, the lanes; types I (that many int32) and F (floats), by value; and these functions,
// all exact or rounding once to nearest even:
//   load_dwords(p, stride, I out[4])   lane o of out[d] = bytes 4d..4d+3 of the 16 at p + o*stride
//   set(int32) set(float)  load(const float*)  store(float*, F)
//   low_nibbles(I) high_nibbles(I)     of each byte
//   mxfp4_codes(I) int4_codes(I)       codes of the tier's own for weights, from nibbles; mxfp4 values are doubled
//   int8_codes(I)                      the same from bytes
//   mxfp4_offset int4_offset int8_offset   code = weight + offset, where the tier multiplies unsigned by signed; else 0
//   dot4<offset>(acc, codes, p)        acc + sum over the 4 bytes of (codes * p[0..3]), for codes made with that offset
//   load_codes(p) store_codes(p, I)    codes between registers and memory
//   to_float(I)
//   exponent(I)                        2^(b - 127) of each lowest byte b (E8M0); 0 gives 2^-127, 255 infinity
//   shift_byte(I)                      the next byte becomes the lowest
//   as_float(I)                        the bits of a float
//   even_bf16(I) odd_bf16(I)           the low and the high half, widened
//   mul add fma
// For few rows a vector is [group][4]: T::groups groups of 32 columns, four lanes each.
//   load_bytes(p)                      as they lie in memory
//   load_even_odd(q, I& even, I& odd)  of the same number of groups of activations in even_odd order
//   dot_bytes<offset>(codes, x)        lane = sum of 4 products;  dot_pair<offset>(a, xa, b, xb) = two of them, added
//   fold(a, b)                         eight lanes a group in two vectors -> four lanes a group
//   reduce4(s[4])                      lane i of a group = the sum of that group's lanes in s[i]
//   spread(p)                          p[g] in the four lanes of group g;  multiply(I, I)
//   exponents4(p, stride)              lane i of group g = exponent of p[i*stride + g]
//   pair_scales4(p, stride)            lane i of group g = p[i*stride + g/2]
//   keep_groups(count, a, b)           a in the first groups, b in the others
//   add_chains(F[4 / groups], out)     out[i] = (chain 0 + chain 1) + (chain 2 + chain 3) of lane i
// A tier whose vectors hold 64 bytes has vectors of [output][block] besides, for few rows of bf16, and a type Four of an element
// each:
//   load_lines(lines[4], I out[4][4])  four lines of four outputs; lane [o][i] of out[q][b] = dword 4q + i of line b of output o
//   transpose_dwords(in[4], I out[4])  lane [o][b] of out[i] = lane [o][i] of in[b]
//   interleave_blocks(x, out)          128 activations in an order of the tier's own; column_of_blocks(out, c): lane [o][b] = x[32b
//   + c] add_blocks(Four, F, n)  store_four(p, Four)    adds the first n blocks, ascending
// and the constants few_rows, row_tile, tiles: how many accumulators its registers hold (they never change bits).
#pragma once

#include "kernels/kernels.hpp"

namespace k3::kernels {

// Fewer outputs than lanes, or fewer than 16 bytes left of a row: what is missing is zero, and nothing beyond is read.
template <class T>
inline void load_some_dwords(const std::uint8_t* p, std::size_t stride, std::size_t outputs, std::size_t bytes,
                             typename T::I out[4]) {
  if (outputs == T::outputs && bytes >= 16) {
    T::load_dwords(p, stride, out);
    return;
  }
  alignas(64) std::uint8_t filled[T::outputs * 16] = {};
  for (std::size_t o = 0; o < outputs; ++o) {
    for (std::size_t i = 0; i < bytes && i < 16; ++i) {
      filled[o * 16 + i] = p[o * stride + i];
    }
  }
  T::load_dwords(filled, 16, out);
}

// Few rows leave the time of a product to memory: what a step needs was asked for some steps before.
inline void prefetch_bytes(const void* p, std::size_t bytes) {
  for (std::size_t i = 0; i < bytes; i += 64) {
    __builtin_prefetch(static_cast<const char*>(p) + i);
  }
}
template <std::size_t Bytes>
inline void prefetch(const void* p) {
  prefetch_bytes(p, Bytes);
}
// The first `ahead` bytes of each of four streams, `length` bytes long, one behind the other: all at once, where steps would wait
// for one line after the other.
inline void prefetch_starts(const std::uint8_t* p, std::size_t length, std::size_t ahead) {
  for (std::size_t i = 0; i < ahead && i < length; i += 64) {
    for (std::size_t stream = 0; stream < 4; ++stream) {
      __builtin_prefetch(p + stream * length + i);
    }
  }
}

// Results of a tile, of which only the first `outputs` exist.
template <class T>
inline void store_some(float* y, typename T::F value, std::size_t outputs) {
  if (outputs == T::outputs) {
    T::store(y, value);
    return;
  }
  alignas(64) float all[T::outputs];
  T::store(all, value);
  for (std::size_t o = 0; o < outputs; ++o) {
    y[o] = all[o];
  }
}

}  // namespace k3::kernels
