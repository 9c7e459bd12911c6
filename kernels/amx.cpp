// AMX: the tier avx512, with tiles for the fast products of many rows.
#include "kernels/amx_outputs.hpp"
#include "kernels/avx512_lanes.hpp"
#include "kernels/tiers.hpp"
#include "kernels/tile_products.hpp"

namespace k3::kernels {
namespace {

// C in tiles 0..3, A in 4 and 5, B in 6 and 7.
struct alignas(64) TileShapes {
  std::uint8_t palette = 1;
  std::uint8_t start_row = 0;
  std::uint8_t reserved[14] = {};
  std::uint16_t row_bytes[16] = {};
  std::uint8_t rows[16] = {};

  constexpr TileShapes(std::uint16_t a_row_bytes, std::uint8_t b_rows) {
    for (std::size_t t = 0; t < 8; ++t) {
      row_bytes[t] = t == 4 || t == 5 ? a_row_bytes : 64;
      rows[t] = t >= 6 ? b_rows : 16;
    }
  }
};
static_assert(sizeof(TileShapes) == 64);
constexpr TileShapes int8_shapes(32, 8);
constexpr TileShapes bf16_shapes(64, 16);

// Not the intrinsics: GCC's take the number of a tile as text only, and those that read memory do not say so to the compiler.
struct HardwareTiles {
  static void configure(const TileShapes& shapes) { asm volatile("ldtilecfg %0" : : "m"(shapes)); }
  static void configure_int8() { configure(int8_shapes); }
  static void configure_bf16() { configure(bf16_shapes); }
  static void release() { asm volatile("tilerelease"); }

  template <std::size_t tile>
  static void load(const void* p, std::size_t stride) {
    asm volatile("tileloadd (%0,%1,1), %%tmm%c2" : : "r"(p), "r"(stride), "i"(tile) : "memory");
  }
  template <std::size_t m>
  static void load_a(const void* p, std::size_t stride) {
    load<4 + m>(p, stride);
  }
  template <std::size_t n>
  static void load_b(const void* p) {
    load<6 + n>(p, 64);
  }
  template <std::size_t c>
  static void load_c(const void* p) {
    load<c>(p, 64);
  }
  template <std::size_t c>
  static void zero_c() {
    asm volatile("tilezero %%tmm%c0" : : "i"(c));
  }
  template <std::size_t c>
  static void store_c(void* p) {
    asm volatile("tilestored %%tmm%c2, (%0,%1,1)" : : "r"(p), "r"(std::size_t{64}), "i"(c) : "memory");
  }
  template <std::size_t m, std::size_t n>
  static void multiply_int8() {
    asm volatile("tdpbssd %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(2 * m + n), "i"(4 + m), "i"(6 + n));
  }
  template <std::size_t m, std::size_t n>
  static void multiply_bf16() {
    asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(2 * m + n), "i"(4 + m), "i"(6 + n));
  }
};

using Fast = TileProducts<HardwareTiles, AmxOutputs, FastProducts<Avx512Outputs>>;

}  // namespace

constinit const Table amx_table = make_table<Avx512, Avx512Outputs, Fast>("amx");

}  // namespace k3::kernels
