// Fast products of two tables on the same small samples. Compiled for any machine, so the standard library is welcome here.
#include <bit>
#include <cstring>
#include <vector>

#include "kernels/tiers.hpp"

namespace k3::kernels {
namespace {

constexpr std::size_t rows = 37;     // whole tiles, two at once and alone, and one that is not whole
constexpr std::size_t outputs = 51;  // the same
constexpr std::size_t columns = 576;
constexpr std::size_t odd_columns = 301;  // fill neither a tile nor a panel

class Samples {
 public:
  std::uint32_t next() {
    state_ = state_ * 6364136223846793005U + 1442695040888963407U;
    return static_cast<std::uint32_t>(state_ >> 33U);
  }
  // Of either sign and some 16 powers of two around 1, so that sums round at every step.
  float number() {
    const float size = std::bit_cast<float>((119U + next() % 16U) << 23U | next() % (1U << 23U));
    return next() % 2U == 0 ? size : -size;
  }
  template <class Value, class Make>
  std::vector<Value> many(std::size_t n, const Make& make) {
    std::vector<Value> result(n);
    for (Value& value : result) {
      value = static_cast<Value>(make());
    }
    return result;
  }

 private:
  std::uint64_t state_ = 1;
};

// product(table, y, y_stride) on both.
template <class Product>
bool same(const Table& a, const Table& b, const Product& product) {
  std::vector<float> of_a(rows * outputs);
  std::vector<float> of_b(rows * outputs);
  product(a, of_a.data());
  product(b, of_b.data());
  return std::memcmp(of_a.data(), of_b.data(), of_a.size() * sizeof(float)) == 0;
}

}  // namespace

bool fast_products_agree(const Table& a, const Table& b) {
  Samples samples;
  const auto number = [&] { return samples.number(); };
  const auto next = [&] { return samples.next(); };
  const auto half = [&] { return std::bit_cast<std::uint32_t>(samples.number()) >> 16U; };

  std::vector<float> x = samples.many<float>(rows * columns, number);
  std::vector<Block> blocks(rows * blocks_of(columns));
  for (std::size_t r = 0; r < rows; ++r) {
    b.quantise(&x[r * columns], columns, Order::natural, &blocks[r * blocks_of(columns)], 0);
  }
  const auto bytes = samples.many<std::uint8_t>(outputs * columns, next);
  const auto weights = samples.many<std::int8_t>(outputs * columns, [&] { return static_cast<int>(samples.next() % 255U) - 127; });
  const auto powers = samples.many<std::uint8_t>(outputs * columns / 32, [&] { return 119U + samples.next() % 16U; });
  const auto scales = samples.many<float>(outputs * columns / 64, number);
  const auto halves = samples.many<std::uint16_t>(outputs * odd_columns, half);
  b.round_bf16(x.data(), x.size(), x.data());

  return same(a, b,
              [&](const Table& t, float* y) {
                t.fast_mxfp4(bytes.data(), powers.data(), outputs, columns, blocks.data(), rows, y, outputs);
              }) &&
         same(a, b,
              [&](const Table& t, float* y) {
                t.fast_int8(weights.data(), scales.data(), outputs, columns, blocks.data(), rows, y, outputs);
              }) &&
         same(a, b,
              [&](const Table& t, float* y) {
                t.fast_int4(bytes.data(), scales.data(), outputs, columns, blocks.data(), rows, y, outputs);
              }) &&
         same(a, b, [&](const Table& t, float* y) {
           t.fast_bf16(halves.data(), outputs, odd_columns, x.data(), rows, columns, y, outputs);
         });
}

}  // namespace k3::kernels
