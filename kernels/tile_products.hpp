// The fast products of a tier with tiles, as functions of its table.
#pragma once

#include "kernels/tile_bf16.hpp"
#include "kernels/tile_integers.hpp"

namespace k3::kernels {

// Few is the tier's way for few rows, T its vectors for tiles.
template <class Tiles, class T, class Few>
struct TileProducts {
  template <class Weights>
  static void integers(const Weights& w, std::size_t out, const Block* x, std::size_t rows, float* y, std::size_t y_stride) {
    Tiles::configure_int8();
    many_rows_all<T, MeetByTiles<Tiles>>(w, out, x, rows, y, y_stride);
    Tiles::release();
  }
  static void mxfp4(const std::uint8_t* packed, const std::uint8_t* scale, std::size_t out, std::size_t columns, const Block* x,
                    std::size_t rows, float* y, std::size_t y_stride) {
    if (rows <= T::few_rows) {
      Few::mxfp4(packed, scale, out, columns, x, rows, y, y_stride);
    } else {
      integers(Mxfp4Weights<T>(packed, scale, columns), out, x, rows, y, y_stride);
    }
  }
  static void int8(const std::int8_t* w, const float* scale, std::size_t out, std::size_t columns, const Block* x, std::size_t rows,
                   float* y, std::size_t y_stride) {
    if (rows <= T::few_rows) {
      Few::int8(w, scale, out, columns, x, rows, y, y_stride);
    } else {
      integers(Int8Weights<T>{w, scale, columns}, out, x, rows, y, y_stride);
    }
  }
  static void int4(const std::uint8_t* w, const float* scale, std::size_t out, std::size_t columns, const Block* x,
                   std::size_t rows, float* y, std::size_t y_stride) {
    if (rows <= T::few_rows) {
      Few::int4(w, scale, out, columns, x, rows, y, y_stride);
    } else {
      integers(Int4Weights<T>(w, scale, columns), out, x, rows, y, y_stride);
    }
  }
  static void bf16(const std::uint16_t* w, std::size_t out, std::size_t columns, const float* x, std::size_t rows,
                   std::size_t x_stride, float* y, std::size_t y_stride) {
    if (rows <= T::few_rows) {
      Few::bf16(w, out, columns, x, rows, x_stride, y, y_stride);
      return;
    }
    Bf16TileBlock<Tiles, T> block;
    Tiles::configure_bf16();
    for (std::size_t r = 0; r < rows; r += tile_bf16_rows) {
      const std::size_t count = rows - r < tile_bf16_rows ? rows - r : tile_bf16_rows;
      for (std::size_t o = 0; o < out; o += tile_bf16_outputs) {
        const std::size_t outputs = out - o < tile_bf16_outputs ? out - o : tile_bf16_outputs;
        block.run({w, columns}, o, outputs, x + r * x_stride, x_stride, count, y + r * y_stride, y_stride);
      }
    }
    Tiles::release();
  }
};

}  // namespace k3::kernels
