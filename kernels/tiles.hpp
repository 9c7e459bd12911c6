// What the fast products ask of tiles: registers of 16 rows that multiply 16 rows of activations and 16 outputs at once.
//
// Activations are the A operand, for their rows lie as a tile wants them; weights are B, whose rows hold 4 bytes of each of 16
// outputs, which is how a panel holds its codes anyway. So the lanes of a result are outputs, as everywhere in the fast products.
//
// A struct Tiles provides, with t, c, m, n known when compiling and 64 bytes between the rows of B and C:
//   configure_int8()  A 16 x 32 bytes, B 8 x 64 bytes, C 16 x 16 int32
//   configure_bf16()  A 16 x 64 bytes, B 16 x 64 bytes, C 16 x 16 floats
//   release()         before returning: a thread that holds tiles pays for them at every switch
//   load_a<m>(p, bytes between rows)  load_b<n>(p)  load_c<c>(p)  zero_c<c>()  store_c<c>(p)     m, n < 2; c = 2 * m + n
//   multiply_int8<m, n>()   C[2m + n][i][j] += sum over k of A[m][i][k] * B[n][k / 4][4 * j + k % 4], exact
//   multiply_bf16<m, n>()   C[i][j] += e + o as kernels.hpp says, but numbers below 2^-126 count as zero, operands and results
#pragma once

#include <cstddef>

namespace k3::kernels {

constexpr std::size_t tile_rows = 16;
constexpr std::size_t tile_bytes = 1024;

}  // namespace k3::kernels
