// The tier amx with tiles of plain code, so that all but the instructions themselves is tested on machines without them. Compiled
// for AVX-512; only a machine that has it may call the table.
#include "tests/kernels/emulated_amx.hpp"

#include "kernels/amx_outputs.hpp"
#include "kernels/avx512_lanes.hpp"
#include "kernels/tiers.hpp"
#include "kernels/tile_products.hpp"

namespace k3::kernels::test {
namespace {

// Threads of the program may multiply at the same time.
constinit thread_local struct {
  std::size_t a_row_bytes, b_rows;  // 0: not configured
  std::uint8_t a[2][tile_bytes], b[2][tile_bytes], c[4][tile_bytes];
} state = {};

void must(bool condition) {
  if (!condition) {
    __builtin_trap();
  }
}

// As the instruction has it: what is too small for a normal number is zero.
float flushed(float x) { return __builtin_fabsf(x) < 0x1p-126F ? __builtin_copysignf(0.0F, x) : x; }

template <class Value>
Value value_at(const std::uint8_t* tile, std::size_t row, std::size_t i) {
  Value value;
  __builtin_memcpy(&value, tile + row * 64 + i * sizeof(Value), sizeof(Value));
  return value;
}

float half_at(const std::uint8_t* tile, std::size_t row, std::size_t i) {
  return flushed(__builtin_bit_cast(float, static_cast<std::uint32_t>(value_at<std::uint16_t>(tile, row, i)) << 16U));
}

struct EmulatedTiles {
  static void configure_int8() {
    must(state.b_rows == 0);
    state.a_row_bytes = 32;
    state.b_rows = 8;
  }
  static void configure_bf16() {
    must(state.b_rows == 0);
    state.a_row_bytes = 64;
    state.b_rows = 16;
  }
  static void release() {
    must(state.b_rows != 0);
    state = {};
  }
  static void load(std::uint8_t* tile, const void* p, std::size_t stride, std::size_t rows, std::size_t row_bytes) {
    must(state.b_rows != 0);
    for (std::size_t r = 0; r < rows; ++r) {
      __builtin_memcpy(tile + r * 64, static_cast<const std::uint8_t*>(p) + r * stride, row_bytes);
    }
  }
  template <std::size_t m>
  static void load_a(const void* p, std::size_t stride) {
    load(state.a[m], p, stride, 16, state.a_row_bytes);
  }
  template <std::size_t n>
  static void load_b(const void* p) {
    load(state.b[n], p, 64, state.b_rows, 64);
  }
  template <std::size_t c>
  static void load_c(const void* p) {
    load(state.c[c], p, 64, 16, 64);
  }
  template <std::size_t c>
  static void zero_c() {
    must(state.b_rows != 0);
    __builtin_memset(state.c[c], 0, tile_bytes);
  }
  template <std::size_t c>
  static void store_c(void* p) {
    must(state.b_rows != 0);
    __builtin_memcpy(p, state.c[c], tile_bytes);
  }
  template <class Value, class Element>
  static void each(std::uint8_t* tile, const Element& element) {
    for (std::size_t i = 0; i < 16; ++i) {
      for (std::size_t j = 0; j < 16; ++j) {
        const Value value = element(i, j, value_at<Value>(tile, i, j));
        __builtin_memcpy(tile + i * 64 + j * sizeof(Value), &value, sizeof(Value));
      }
    }
  }
  template <std::size_t m, std::size_t n>
  static void multiply_int8() {
    must(state.b_rows == 8);
    each<std::int32_t>(state.c[2 * m + n], [](std::size_t i, std::size_t j, std::int32_t sum) {
      for (std::size_t k = 0; k < 32; ++k) {
        sum += value_at<std::int8_t>(state.a[m], i, k) * value_at<std::int8_t>(state.b[n], k / 4, 4 * j + k % 4);
      }
      return sum;
    });
  }
  template <std::size_t m, std::size_t n>
  static void multiply_bf16() {
    must(state.b_rows == 16);
    each<float>(state.c[2 * m + n], [](std::size_t i, std::size_t j, float sum) {
      float parts[2] = {0.0F, 0.0F};
      for (std::size_t k = 0; k < 32; ++k) {
        const float product = __builtin_fmaf(half_at(state.a[m], i, k), half_at(state.b[n], k / 2, 2 * j + k % 2), parts[k % 2]);
        parts[k % 2] = flushed(product);
      }
      return flushed(flushed(sum) + flushed(parts[0] + parts[1]));
    });
  }
};

using Fast = TileProducts<EmulatedTiles, AmxOutputs, FastProducts<Avx512Outputs>>;

}  // namespace

constinit const Table emulated_amx_table = make_table<Avx512, Avx512Outputs, Fast>("amx, emulated");

}  // namespace k3::kernels::test
