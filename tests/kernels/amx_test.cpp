// What is particular to tiles: numbers that they would flush, and the check that a processor must pass.
#include "kernels/tiers.hpp"
#include "tests/catch.hpp"
#include "tests/kernels/amx_instructions.hpp"
#include "tests/kernels/samples.hpp"

namespace k3::kernels::test {
namespace {

// bf16 numbers with exponents from `lowest` to lowest + spread - 1; some are zero.
std::uint16_t half_around(Random& random, unsigned lowest, unsigned spread) {
  const unsigned bits = random.next();
  return static_cast<std::uint16_t>(bits % 7 == 0 ? 0 : (bits & 0x807fU) | (lowest + (bits >> 16U) % spread) << 7U);
}

struct Sample {
  unsigned w_exponent, x_exponent, spread;
  std::size_t x_columns;  // later ones are zero
};

void compare_with_scalar(const Sample& sample, std::size_t out, std::size_t columns, std::size_t rows) {
  Random random(sample.w_exponent * 256 + sample.x_exponent);
  Buffer<std::uint16_t> w(out * columns, 1);
  Floats x(rows * columns, 1);
  for (std::size_t i = 0; i < w.size(); ++i) {
    w[i] = half_around(random, sample.w_exponent, sample.spread);
  }
  for (std::size_t i = 0; i < x.size(); ++i) {
    x[i] = i % columns < sample.x_columns ? widened(half_around(random, sample.x_exponent, sample.spread)) : 0.0F;
  }
  std::vector<float> expected(rows * out);
  scalar().fast_bf16(w.data(), out, columns, x.data(), rows, columns, expected.data(), out);
  for (const Table* table : supported_tables()) {
    std::vector<float> got(rows * out);
    table->fast_bf16(w.data(), out, columns, x.data(), rows, columns, got.data(), out);
    INFO(table->name << ", exponents " << sample.w_exponent << " and " << sample.x_exponent << ", " << rows << " rows");
    CHECK(difference(expected, got) == "");
  }
}

TEST_CASE("fast bf16 products keep denormals on every tier") {
  // Denormal weights, activations, products, and sums of numbers that are none; the bound itself and what is just beyond it; and a
  // denormal sum that meets nothing but zeros afterwards.
  const Sample samples[] = {{0, 120, 1, 600},   {120, 0, 1, 600}, {0, 250, 1, 600}, {250, 0, 1, 600},   {1, 120, 4, 600},
                            {60, 64, 3, 600},   {70, 71, 1, 600}, {71, 71, 1, 600}, {72, 71, 1, 600},   {40, 100, 4, 600},
                            {50, 130, 30, 600}, {60, 64, 3, 256}, {0, 127, 1, 200}, {240, 240, 15, 600}};
  for (const Sample& sample : samples) {
    compare_with_scalar(sample, 37, 600, 21);
  }
  compare_with_scalar({60, 64, 8, 600}, 130, 600, 150);
}

TEST_CASE("fast bf16 products carry NaN and infinity on every tier") {
  for (const Kind kind : {Kind::denormal, Kind::special}) {
    auto w = halves(37 * 300, 1, 5, kind);
    auto x = floats(40 * 300, 1, 6, kind);
    scalar().round_bf16(x.data(), x.size(), x.data());
    std::vector<float> expected(40 * 37);
    scalar().fast_bf16(w.data(), 37, 300, x.data(), 40, 300, expected.data(), 37);
    for (const Table* table : supported_tables()) {
      std::vector<float> got(40 * 37);
      table->fast_bf16(w.data(), 37, 300, x.data(), 40, 300, got.data(), 37);
      INFO(table->name);
      CHECK(difference(expected, got) == "");
    }
  }
}

TEST_CASE("the self-check passes equal tables and sees one wrong bit in any product") {
  const Table* const best = select("auto");
  CHECK(fast_products_agree(*best, scalar()));
  CHECK(fast_products_agree(scalar(), *best));

  Table wrong = scalar();
  wrong.fast_mxfp4 = [](const std::uint8_t* w, const std::uint8_t* scale, std::size_t out, std::size_t columns, const Block* x,
                        std::size_t rows, float* y, std::size_t stride) {
    scalar().fast_mxfp4(w, scale, out, columns, x, rows, y, stride);
    y[(rows - 1) * stride + out - 1] = std::nextafter(y[(rows - 1) * stride + out - 1], 0.0F);
  };
  CHECK_FALSE(fast_products_agree(wrong, scalar()));

  wrong = scalar();
  wrong.fast_int8 = [](const std::int8_t* w, const float* scale, std::size_t out, std::size_t columns, const Block* x,
                       std::size_t rows, float* y, std::size_t stride) {
    scalar().fast_int8(w, scale, out, columns, x, rows, y, stride);
    y[0] = std::nextafter(y[0], 0.0F);
  };
  CHECK_FALSE(fast_products_agree(wrong, scalar()));

  wrong = scalar();
  wrong.fast_int4 = [](const std::uint8_t* w, const float* scale, std::size_t out, std::size_t columns, const Block* x,
                       std::size_t rows, float* y, std::size_t stride) {
    scalar().fast_int4(w, scale, out, columns, x, rows, y, stride);
    y[stride] = std::nextafter(y[stride], 0.0F);
  };
  CHECK_FALSE(fast_products_agree(wrong, scalar()));

  // One chain a pair, as another bf16 instruction has it, instead of e + o.
  wrong = scalar();
  wrong.fast_bf16 = [](const std::uint16_t* w, std::size_t out, std::size_t columns, const float* x, std::size_t rows,
                       std::size_t x_stride, float* y, std::size_t stride) {
    for (std::size_t i = 0; i < rows * out; ++i) {
      float sum = 0.0F;
      for (std::size_t c = 0; c < columns; ++c) {
        sum = std::fma(widened(w[i % out * columns + c]), x[i / out * x_stride + c], sum);
      }
      y[i / out * stride + i % out] = sum;
    }
  };
  CHECK_FALSE(fast_products_agree(wrong, scalar()));
}

TEST_CASE("the code of the tier amx gives the bits of the others") {
  if (!supported(*find("avx512"))) {
    return;
  }
  const bool native = supported(*find("amx"));
  const PlayedInstructions instructions;
  CHECK(fast_products_agree(*find("amx"), scalar()));
  CHECK((PlayedInstructions::count() == 0) == native);
}

}  // namespace
}  // namespace k3::kernels::test
