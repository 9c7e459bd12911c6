// Rounding at load, against the definition written out in double where that is exact.
#include "model/checkpoint/quantise.hpp"

#include <bit>
#include <cmath>
#include <random>

#include "tests/catch.hpp"

using namespace k3::checkpoint;

namespace {

std::uint16_t half(float x) { return static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(x) >> 16); }
float value(std::uint16_t h) { return std::bit_cast<float>(static_cast<std::uint32_t>(h) << 16); }

std::vector<std::uint16_t> random_weights(std::size_t n) {
  std::mt19937 random(7);
  std::vector<std::uint16_t> w(n);
  for (auto& x : w) x = half(static_cast<float>(random() % 20001) / 10000.0F - 1.0F);
  return w;
}

}  // namespace

TEST_CASE("int8: a scale a row, ties to even, the largest weight is 127") {
  const std::size_t rows = 3, columns = 70;
  auto w = random_weights(rows * columns);
  std::fill_n(w.begin() + columns, columns, half(0.0F));  // a row of zeros
  std::vector<std::int8_t> q(rows * columns);
  std::vector<float> scale(rows);
  CHECK(quantise_rows(Precision::int8, w.data(), rows, columns, q.data(), scale.data()));
  for (std::size_t row = 0; row < rows; ++row) {
    float largest = 0;
    for (std::size_t c = 0; c < columns; ++c) largest = std::max(largest, std::fabs(value(w[row * columns + c])));
    CHECK(scale[row] == std::max(largest / 127.0F, 1e-20F));
    for (std::size_t c = 0; c < columns; ++c) {
      CHECK(q[row * columns + c] == static_cast<int>(std::nearbyint(value(w[row * columns + c]) * (1.0F / scale[row]))));
    }
  }
  const std::uint16_t ties[] = {half(127.0F), half(-127.0F), half(0.5F), half(1.5F), half(-2.5F)};
  std::int8_t out[5];
  float one = 0;
  CHECK(quantise_rows(Precision::int8, ties, 1, 5, out, &one));
  CHECK(one == 1.0F);
  CHECK(std::vector<int>(out, out + 5) == std::vector<int>{127, -127, 0, 2, -2});
}

TEST_CASE("int4: a scale for 64 columns, even columns in the low nibbles") {
  const std::size_t rows = 2, columns = 192;
  const auto w = random_weights(rows * columns);
  std::vector<std::uint8_t> q(rows * columns / 2);
  std::vector<float> scale(rows * columns / 64);
  CHECK(quantise_rows(Precision::int4, w.data(), rows, columns, q.data(), scale.data()));
  for (std::size_t i = 0; i < w.size(); i += 64) {
    float largest = 0;
    for (std::size_t c = i; c < i + 64; ++c) largest = std::max(largest, std::fabs(value(w[c])));
    const float s = scale[i / 64];
    CHECK(s == std::max(largest / 7.0F, 1e-20F));
    for (std::size_t c = i; c < i + 64; ++c) {
      const int code = static_cast<int>(c % 2 == 0 ? q[c / 2] & 15U : q[c / 2] >> 4U) - 8;
      CHECK(code == std::clamp(static_cast<int>(std::nearbyint(value(w[c]) * (1.0F / s))), -8, 7));
    }
  }
}

TEST_CASE("int4 asks for whole groups of 64 columns") {
  CHECK(possible(Precision::int4, 128) == Precision::int4);
  CHECK(possible(Precision::int4, 96) == Precision::int8);
  CHECK(possible(Precision::bf16, 96) == Precision::bf16);
}
