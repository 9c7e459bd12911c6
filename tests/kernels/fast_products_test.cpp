// The fast products of every tier against the definition in kernels.hpp, written out plainly, bit by bit.
#include <cstring>

#include "tests/catch.hpp"
#include "tests/kernels/samples.hpp"

namespace k3::kernels::test {
namespace {

struct Shape {
  std::size_t out, columns, rows;
};

// Every remainder of a vector of outputs, of a panel and of a block of rows; columns that fill a panel, miss it and go beyond.
std::vector<Shape> shapes(const std::vector<std::size_t>& columns) {
  std::vector<Shape> result;
  for (const std::size_t c : columns) {
    for (const std::size_t out : {1U, 3U, 4U, 8U, 9U, 16U, 31U, 32U, 53U}) {
      for (const std::size_t rows : {1U, 2U, 3U, 4U, 5U, 9U}) {
        result.push_back({out, c, rows});
      }
    }
  }
  result.push_back({37, columns.back(), 150});  // more rows than a block
  return result;
}

std::string describe(const Table& table, const Shape& s) {
  return std::string(table.name) + ": " + std::to_string(s.out) + " outputs, " + std::to_string(s.columns) + " columns, " +
         std::to_string(s.rows) + " rows";
}

struct Group {
  std::int8_t q[group_columns];
  float scale;
  std::int32_t sum;
};

Group quantised(const float* x, std::size_t count, Order order) {
  Group group = {};
  std::uint32_t largest = 0;
  for (std::size_t i = 0; i < count; ++i) {
    largest = std::max(largest, std::bit_cast<std::uint32_t>(std::fabs(x[i])));
  }
  const float size = std::bit_cast<float>(largest);
  if (!std::isfinite(size)) {
    group.scale = std::numeric_limits<float>::quiet_NaN();
    return group;
  }
  if (size < 0x1p-100F) {
    return group;
  }
  group.scale = size / 127.0F;
  for (std::size_t i = 0; i < count; ++i) {
    const auto q = static_cast<std::int8_t>(std::nearbyint(x[i] * (127.0F / size)));
    group.q[order == Order::natural ? i : i / 2 + i % 2 * 16] = q;
    group.sum += q;
  }
  return group;
}

std::vector<Group> quantised_rows(Floats& x, std::size_t rows, std::size_t columns, Order order) {
  std::vector<Group> result;
  for (std::size_t r = 0; r < rows; ++r) {
    for (std::size_t c = 0; c < columns; c += group_columns) {
      result.push_back(quantised(x.data() + r * columns + c, std::min(group_columns, columns - c), order));
    }
  }
  return result;
}

// As the kernels take them. Groups that do not exist hold what must never be read.
std::vector<Block> blocks_from(const std::vector<Group>& groups, std::size_t rows, std::size_t columns) {
  Block poison;
  std::memset(&poison, 0x7f, sizeof(poison));
  for (float& scale : poison.scale) scale = std::numeric_limits<float>::quiet_NaN();
  std::vector<Block> blocks(rows * blocks_of(columns), poison);
  for (std::size_t r = 0; r < rows; ++r) {
    for (std::size_t g = 0; g < groups_of(columns); ++g) {
      Block& block = blocks[r * blocks_of(columns) + g / block_groups];
      const Group& group = groups[r * groups_of(columns) + g];
      std::memcpy(block.q[g % block_groups], group.q, sizeof(group.q));
      block.scale[g % block_groups] = group.scale;
      block.sum[g % block_groups] = group.sum;
    }
  }
  return blocks;
}

// weight(o, c) is a whole number, scale(o, g) that of a group; `after` scales the final sum.
template <class Weight, class Scale, class After>
std::vector<float> integer_reference(const Shape& s, const std::vector<Group>& x, Order order, const Weight& weight,
                                     const Scale& scale, const After& after) {
  std::vector<float> y;
  const std::size_t groups = groups_of(s.columns);
  for (std::size_t r = 0; r < s.rows; ++r) {
    for (std::size_t o = 0; o < s.out; ++o) {
      float chain[4] = {};
      for (std::size_t g = 0; g < groups; ++g) {
        const Group& group = x[r * groups + g];
        std::int32_t sum = 0;
        for (std::size_t i = 0; i < group_columns && g * group_columns + i < s.columns; ++i) {
          sum += weight(o, g * group_columns + i) * group.q[order == Order::natural ? i : i / 2 + i % 2 * 16];
        }
        chain[g % 4] = std::fma(static_cast<float>(sum), scale(o, g, group.scale), chain[g % 4]);
      }
      y.push_back(((chain[0] + chain[1]) + (chain[2] + chain[3])) * after(o));
    }
  }
  return y;
}

Buffer<std::uint8_t> bytes(std::size_t n, std::uint64_t seed) {
  Random random(seed);
  Buffer<std::uint8_t> result(n, 3);
  for (std::size_t i = 0; i < n; ++i) {
    result[i] = static_cast<std::uint8_t>(random.next());
  }
  return result;
}

constexpr float untouched = 12345.0F;

// Results in rows that are further apart than they are long; what lies between must stay.
template <class Product>
std::vector<float> run(const Shape& s, const Product& product) {
  const std::size_t stride = s.out + 5;
  std::vector<float> y(s.rows * stride, untouched);
  product(y.data(), stride);
  std::vector<float> result;
  for (std::size_t i = 0; i < y.size(); ++i) {
    if (i % stride < s.out) {
      result.push_back(y[i]);
    } else {
      CHECK(y[i] == untouched);
    }
  }
  return result;
}

TEST_CASE("quantise follows its definition") {
  for (const Table* table : supported_tables()) {
    for (const Kind kind : {Kind::plain, Kind::denormal, Kind::special}) {
      for (const std::size_t columns : {1U, 16U, 31U, 32U, 33U, 64U, 200U}) {
        for (const Order order : {Order::natural, Order::even_odd}) {
          auto x = floats(columns, columns % 5, columns, kind);
          const auto expected = quantised_rows(x, 1, columns, order);
          // At the start of a row, and in the middle of one, where the neighbours stay as they are.
          for (const std::size_t first : {0U, 96U}) {
            INFO(table->name << " " << columns << " from " << first);
            std::vector<Block> got(blocks_of(first + columns) + 1);
            std::memset(got.data(), 0x55, got.size() * sizeof(Block));
            table->quantise(x.data(), columns, order, got.data(), first);
            for (std::size_t i = 0; i < got.size() * block_groups; ++i) {
              const Block& block = got[i / block_groups];
              const std::size_t at = i % block_groups, g = i - first / group_columns;
              if (g >= expected.size()) {
                CHECK(block.sum[at] == 0x55555555);
                continue;
              }
              CHECK(std::memcmp(block.q[at], expected[g].q, sizeof(expected[g].q)) == 0);
              CHECK(same(block.scale[at], expected[g].scale));
              CHECK(block.sum[at] == expected[g].sum);
            }
          }
        }
      }
    }
  }
}

TEST_CASE("quantise rounds to nearest even at halves and keeps the extremes") {
  for (const Table* table : supported_tables()) {
    float x[group_columns] = {127.0F, -127.0F, 0.5F, 1.5F, 2.5F, -0.5F, -1.5F, -2.5F};
    Block block;
    table->quantise(x, group_columns, Order::natural, &block, 0);
    const std::int8_t expected[8] = {127, -127, 0, 2, 2, 0, -2, -2};
    CHECK(std::memcmp(block.q[0], expected, 8) == 0);
    CHECK(block.scale[0] == 1.0F);
  }
}

TEST_CASE("fast MXFP4 products follow their definition") {
  constexpr std::int32_t doubled[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};
  for (const Shape& s : shapes({32, 96, 128, 160, 512, 544, 1056})) {
    auto x = floats(s.rows * s.columns, 1, s.columns);
    const auto groups = quantised_rows(x, s.rows, s.columns, Order::even_odd);
    const auto blocks = blocks_from(groups, s.rows, s.columns);
    auto packed = bytes(s.out * s.columns / 2, 7);
    auto scale = bytes(s.out * s.columns / 32, 8);
    for (std::size_t i = 0; i < scale.size(); ++i) {
      scale[i] = static_cast<std::uint8_t>(i % 11 == 0 ? 0 : 100 + scale[i] % 40);
    }
    const auto weight = [&](std::size_t o, std::size_t c) {
      const unsigned byte = packed[o * s.columns / 2 + c / 2];
      return doubled[c % 2 == 0 ? byte & 15U : byte >> 4U];
    };
    const auto scales = [&](std::size_t o, std::size_t g, float of_x) {
      return of_x * std::ldexp(0.5F, scale[o * s.columns / 32 + g] - 127);
    };
    const auto expected = integer_reference(s, groups, Order::even_odd, weight, scales, [](std::size_t) { return 1.0F; });
    for (const Table* table : supported_tables()) {
      INFO(describe(*table, s));
      const auto got = run(s, [&](float* y, std::size_t stride) {
        table->fast_mxfp4(packed.data(), scale.data(), s.out, s.columns, blocks.data(), s.rows, y, stride);
      });
      CHECK(difference(expected, got) == "");
    }
  }
}

TEST_CASE("fast MXFP4 products are not finite where a scale is NaN") {
  Floats x = floats(32, 0, 1);
  const auto blocks = blocks_from(quantised_rows(x, 1, 32, Order::even_odd), 1, 32);
  auto packed = bytes(16 * 16, 7);
  std::vector<std::uint8_t> scale(16, 255);
  for (const Table* table : supported_tables()) {
    float y[16];
    table->fast_mxfp4(packed.data(), scale.data(), 16, 32, blocks.data(), 1, y, 16);
    for (const float value : y) {
      CHECK_FALSE(std::isfinite(value));
    }
  }
}

TEST_CASE("fast int8 products follow their definition") {
  for (const Shape& s : shapes({1, 15, 32, 70, 512, 545, 1056})) {
    auto x = floats(s.rows * s.columns, 1, s.columns);
    const auto groups = quantised_rows(x, s.rows, s.columns, Order::natural);
    const auto blocks = blocks_from(groups, s.rows, s.columns);
    auto raw = bytes(s.out * s.columns, 9);
    for (std::size_t i = 0; i < raw.size(); ++i) {
      if (raw[i] == 0x80) {
        raw[i] = 0x81;  // -128 is no weight
      }
    }
    auto scale = floats(s.out, 1, 10);
    const auto* const w = reinterpret_cast<const std::int8_t*>(raw.data());
    const auto weight = [&](std::size_t o, std::size_t c) { return static_cast<std::int32_t>(w[o * s.columns + c]); };
    const auto expected = integer_reference(
        s, groups, Order::natural, weight, [](std::size_t, std::size_t, float of_x) { return of_x; },
        [&](std::size_t o) { return scale[o]; });
    for (const Table* table : supported_tables()) {
      INFO(describe(*table, s));
      const auto got = run(s, [&](float* y, std::size_t stride) {
        table->fast_int8(w, scale.data(), s.out, s.columns, blocks.data(), s.rows, y, stride);
      });
      CHECK(difference(expected, got) == "");
    }
  }
}

TEST_CASE("fast int8 products hold the largest sums") {
  const std::size_t columns = 64;
  std::vector<std::int8_t> w(16 * columns, 127);
  std::vector<float> scale(16, 1.0F);
  Block block = {};
  for (std::size_t g = 0; g < 2; ++g) {
    std::memset(block.q[g], 127, sizeof(block.q[g]));
    block.scale[g] = 1.0F;
    block.sum[g] = 127 * 32;
  }
  for (const std::int8_t value : {std::int8_t{127}, std::int8_t{-127}}) {
    std::fill(w.begin(), w.end(), value);
    for (const Table* table : supported_tables()) {
      float y[16];
      table->fast_int8(w.data(), scale.data(), 16, columns, &block, 1, y, 16);
      for (const float sum : y) {
        CHECK(sum == static_cast<float>(value) * 127.0F * 64.0F);
      }
    }
  }
}

TEST_CASE("fast int4 products follow their definition") {
  for (const Shape& s : shapes({64, 128, 512, 576, 1088})) {
    auto x = floats(s.rows * s.columns, 1, s.columns);
    const auto groups = quantised_rows(x, s.rows, s.columns, Order::even_odd);
    const auto blocks = blocks_from(groups, s.rows, s.columns);
    auto packed = bytes(s.out * s.columns / 2, 7);
    auto scale = floats(s.out * s.columns / 64, 1, 8);
    const auto weight = [&](std::size_t o, std::size_t c) {
      const unsigned byte = packed[o * s.columns / 2 + c / 2];
      return static_cast<std::int32_t>(c % 2 == 0 ? byte & 15U : byte >> 4U) - 8;
    };
    const auto scales = [&](std::size_t o, std::size_t g, float of_x) { return of_x * scale[o * s.columns / 64 + g / 2]; };
    const auto expected = integer_reference(s, groups, Order::even_odd, weight, scales, [](std::size_t) { return 1.0F; });
    for (const Table* table : supported_tables()) {
      INFO(describe(*table, s));
      const auto got = run(s, [&](float* y, std::size_t stride) {
        table->fast_int4(packed.data(), scale.data(), s.out, s.columns, blocks.data(), s.rows, y, stride);
      });
      CHECK(difference(expected, got) == "");
    }
  }
}

TEST_CASE("fast bf16 products follow their definition") {
  for (const Shape& s : shapes({1, 31, 32, 70, 128, 161, 300})) {
    auto x = floats(s.rows * s.columns, 1, s.columns);
    for (std::size_t i = 0; i < x.size(); ++i) {
      x[i] = widened(static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(x[i]) >> 16));
    }
    auto w = halves(s.out * s.columns, 1, 5);
    std::vector<float> expected;
    for (std::size_t r = 0; r < s.rows; ++r) {
      for (std::size_t o = 0; o < s.out; ++o) {
        float y = 0.0F;
        for (std::size_t block = 0; block < s.columns; block += 32) {
          float sums[2] = {0.0F, 0.0F};
          for (std::size_t c = block; c < block + 32; ++c) {
            const bool exists = c < s.columns;
            sums[c % 2] =
                std::fma(exists ? widened(w[o * s.columns + c]) : 0.0F, exists ? x[r * s.columns + c] : 0.0F, sums[c % 2]);
          }
          y += sums[0] + sums[1];
        }
        expected.push_back(y);
      }
    }
    for (const Table* table : supported_tables()) {
      INFO(describe(*table, s));
      const auto got = run(s, [&](float* y, std::size_t stride) {
        table->fast_bf16(w.data(), s.out, s.columns, x.data(), s.rows, s.columns, y, stride);
      });
      CHECK(difference(expected, got) == "");
    }
  }
}

TEST_CASE("round_bf16 rounds to nearest even") {
  const std::uint32_t bits[][2] = {{0x3f800000, 0x3f800000}, {0x3f808000, 0x3f800000}, {0x3f818000, 0x3f820000},
                                   {0x3f808001, 0x3f810000}, {0xbf808001, 0xbf810000}, {0x7f7fffff, 0x7f800000},
                                   {0x7f800000, 0x7f800000}, {0x00008000, 0x00000000}, {0x80000000, 0x80000000}};
  for (const Table* table : supported_tables()) {
    for (const auto& [from, to] : bits) {
      const float x = std::bit_cast<float>(from);
      float y = 0.0F;
      table->round_bf16(&x, 1, &y);
      CHECK(std::bit_cast<std::uint32_t>(y) == to);
    }
    const float nan = std::bit_cast<float>(0x7f800001U);
    float y = 0.0F;
    table->round_bf16(&nan, 1, &y);
    CHECK(std::isnan(y));
  }
}

}  // namespace
}  // namespace k3::kernels::test
