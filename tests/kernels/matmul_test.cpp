// Matrix products: bits independent of tier, rows and outputs; widening exact; sums near the double reference.
#include "tests/catch.hpp"
#include "tests/kernels/samples.hpp"

namespace k3::kernels::test {
namespace {

struct Shape {
  std::size_t out, columns, rows, offset;
  Kind kind;
};
enum class Weights { bf16, f32, mxfp4 };

// One product with strides wider than the rows; the gaps of y hold NaN before and are part of the result.
struct Product {
  Product(Weights weights, const Shape& shape)
      : form(weights),
        s(shape),
        bf16(halves(s.out * s.columns, s.offset, 1, s.kind)),
        f32(floats(s.out * s.columns, s.offset, 2, s.kind)),
        packed(s.out * s.columns / 2, s.offset),
        scale(s.out * s.columns / 32, s.offset),
        x(floats(s.rows * (s.columns + 5), s.offset, 3, s.kind)) {
    Random random(4);
    for (std::size_t i = 0; i < packed.size(); ++i) {
      packed[i] = static_cast<std::uint8_t>(random.next());
    }
    for (std::size_t i = 0; i < scale.size(); ++i) {
      scale[i] = static_cast<std::uint8_t>(shape.kind == Kind::special ? random.next() : 120 + random.next() % 12);
    }
  }

  std::vector<float> run(const Table& t) {
    Floats y(s.rows * (s.out + 3), s.offset);
    for (std::size_t i = 0; i < y.size(); ++i) {
      y[i] = std::numeric_limits<float>::quiet_NaN();
    }
    rows_of(t, 0, s.rows, y.data());
    return y.values();
  }

  void rows_of(const Table& t, std::size_t first, std::size_t count, float* y) {
    const std::size_t x_stride = s.columns + 5;
    const float* const from = x.data() + first * x_stride;
    switch (form) {
      case Weights::bf16:
        t.matmul_bf16(bf16.data(), s.out, s.columns, from, count, x_stride, y, s.out + 3);
        break;
      case Weights::f32:
        t.matmul_f32(f32.data(), s.out, s.columns, from, count, x_stride, y, s.out + 3);
        break;
      case Weights::mxfp4:
        t.matmul_mxfp4(packed.data(), scale.data(), s.out, s.columns, from, count, x_stride, y, s.out + 3);
        break;
    }
  }

  double weight(std::size_t o, std::size_t i) {
    constexpr double magnitude[8] = {0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0};
    const std::size_t at = o * s.columns + i;
    switch (form) {
      case Weights::bf16:
        return widened(bf16[at]);
      case Weights::f32:
        return f32[at];
      case Weights::mxfp4:
        break;
    }
    const unsigned code = (packed[at / 2] >> (at % 2 * 4)) & 15U;
    return std::ldexp(code < 8 ? magnitude[code] : -magnitude[code - 8], scale[at / 32] - 127);
  }

  Weights form;
  Shape s;
  Buffer<std::uint16_t> bf16;
  Floats f32;
  Buffer<std::uint8_t> packed;
  Buffer<std::uint8_t> scale;
  Floats x;
};

std::vector<std::size_t> column_counts(Weights form) {
  if (form == Weights::mxfp4) {
    return {0, 32, 64, 224, 256, 288, 512, 800};
  }
  std::vector<std::size_t> result = {255, 256, 257, 300, 513};
  for (std::size_t n = 0; n <= 67; ++n) {
    result.push_back(n);
  }
  return result;
}

void compare_tiers(Weights form, const Shape& shape) {
  Product product(form, shape);
  const auto expected = product.run(scalar());
  for (const Table* table : supported_tables()) {
    const std::string where = difference(expected, product.run(*table));
    if (!where.empty()) {
      FAIL(table->name << " form " << static_cast<int>(form) << " out " << shape.out << " columns " << shape.columns << " rows "
                       << shape.rows << ": " << where);
    }
  }
}

}  // namespace

TEST_CASE("products give the bits of the scalar tier") {
  for (const Weights form : {Weights::bf16, Weights::f32, Weights::mxfp4}) {
    for (const std::size_t columns : column_counts(form)) {
      for (std::size_t rows = 1; rows <= 9; ++rows) {
        for (const std::size_t out : {0, 1, 6, 13}) {
          const Kind kind = rows % 3 == 0 ? Kind::special : rows % 3 == 1 ? Kind::plain : Kind::denormal;
          compare_tiers(form, {out, columns, rows, (rows + columns) % 5, kind});
        }
      }
      compare_tiers(form, {9, columns, 1, 1, Kind::special});
      compare_tiers(form, {5, columns, 16, 1, Kind::plain});
      compare_tiers(form, {5, columns, 37, 3, Kind::special});
    }
  }
}

TEST_CASE("a row has the same bits alone and among others, and so has an output") {
  for (const Weights form : {Weights::bf16, Weights::f32, Weights::mxfp4}) {
    for (const std::size_t columns : {32, 288, 544}) {
      Product product(form, {13, columns, 21, 0, Kind::plain});
      for (const Table* table : supported_tables()) {
        const auto together = product.run(*table);
        for (std::size_t r = 0; r < 21; ++r) {
          std::vector<float> alone(16);
          product.rows_of(*table, r, 1, alone.data());
          for (std::size_t o = 0; o < 13; ++o) {
            REQUIRE(same(alone[o], together[r * 16 + o]));
          }
        }
        Product fewer(form, {3, columns, 21, 0, Kind::plain});
        fewer.x = product.x;
        fewer.scale = product.scale;  // the same first rows: samples come in order, and so do these bytes
        const auto some = fewer.run(*table);
        for (std::size_t r = 0; r < 21; ++r) {
          for (std::size_t o = 0; o < 3; ++o) {
            REQUIRE(same(some[r * 6 + o], together[r * 16 + o]));
          }
        }
      }
    }
  }
}

TEST_CASE("products are near the double reference") {
  for (const Weights form : {Weights::bf16, Weights::f32, Weights::mxfp4}) {
    for (const std::size_t columns : {32, 256, 1024}) {
      const Shape s{6, columns, 5, 1, Kind::plain};
      Product product(form, s);
      const auto got = product.run(scalar());
      for (std::size_t r = 0; r < s.rows; ++r) {
        for (std::size_t o = 0; o < s.out; ++o) {
          double exact = 0.0;
          double size = 0.0;
          for (std::size_t i = 0; i < columns; ++i) {
            const double term = product.weight(o, i) * static_cast<double>(product.x[r * (columns + 5) + i]);
            exact += term;
            size += std::fabs(term);
          }
          // columns/16 roundings in a lane and 4 in the tree, each half an ulp of a partial sum.
          const double bound = (static_cast<double>(columns) / 16.0 + 4.0) * 0x1p-24 * size;
          REQUIRE(std::fabs(got[r * (s.out + 3) + o] - exact) <= bound);
        }
      }
    }
  }
}

TEST_CASE("bf16 widens exactly, all 65536 of them") {
  Buffer<std::uint16_t> all(65536, 1);
  for (std::size_t i = 0; i < 65536; ++i) {
    all[i] = static_cast<std::uint16_t>(i);
  }
  for (const Table* table : supported_tables()) {
    std::vector<float> y(65536);
    table->widen_bf16(all.data(), y.size(), y.data());
    for (std::size_t i = 0; i < y.size(); ++i) {
      REQUIRE(std::bit_cast<std::uint32_t>(y[i]) == i << 16);
    }
  }
}

TEST_CASE("MXFP4 widens exactly, all codes and scales") {
  constexpr double magnitude[8] = {0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0};
  // Column 0 holds the code and x picks it by 1; the other columns are 0 * 0. Rows 1 and 2: alone, and through a panel.
  for (const Table* table : supported_tables()) {
    for (int scale = 0; scale < 256; ++scale) {
      for (unsigned code = 0; code < 16; ++code) {
        for (const std::size_t column : {0, 1, 14, 17, 31}) {
          std::uint8_t packed[16] = {};
          packed[column / 2] = static_cast<std::uint8_t>(code << (column % 2 * 4));
          const auto byte = static_cast<std::uint8_t>(scale);
          float x[2][32] = {};
          x[0][column] = x[1][column] = 1.0F;
          float y[3];
          table->matmul_mxfp4(packed, &byte, 1, 32, x[0], 1, 32, y, 1);
          table->matmul_mxfp4(packed, &byte, 1, 32, x[0], 2, 32, y + 1, 1);
          const double value = std::ldexp(code < 8 ? magnitude[code] : -magnitude[code - 8], scale - 127);
          // Above the largest float (6 * 2^127, say) the nearest float is infinity; a sum from +0 shows -0 as +0.
          float expected = static_cast<float>(std::fabs(value) > 0x1.fffffep127 ? std::copysign(HUGE_VAL, value) : value) + 0.0F;
          if (scale == 255) {
            expected = std::numeric_limits<float>::quiet_NaN();
          }
          REQUIRE(same(y[0], expected));
          REQUIRE(same(y[1], expected));
          REQUIRE(same(y[2], expected));
        }
      }
    }
  }
}

}  // namespace k3::kernels::test
