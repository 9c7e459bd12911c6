// Products of any shape on any weights, scales and activations: every tier that runs here gives the same bits.
#include "kernels/kernels.hpp"

#include <bit>
#include <cstdlib>
#include <vector>

#include "tests/kernels/emulated_amx.hpp"

using namespace k3::kernels;

namespace {

// The input's bytes; beyond its end, bytes that follow from them.
class Bytes {
 public:
  Bytes(const std::uint8_t* data, std::size_t size) : data_(data), left_(size) {}
  std::uint8_t byte() {
    if (left_ == 0) {
      state_ = state_ * 6364136223846793005U + 1442695040888963407U;
      return static_cast<std::uint8_t>(state_ >> 56U);
    }
    --left_;
    state_ = (state_ ^ *data_) * 0x100000001b3U;
    return *data_++;
  }
  std::uint16_t half() { return static_cast<std::uint16_t>(byte() | byte() << 8U); }
  // Any bf16 number, or one of ordinary size: sums of the former are mostly infinite.
  std::uint16_t number(bool any) {
    const std::uint16_t bits = half();
    return any ? bits : static_cast<std::uint16_t>((bits & 0x87ffU) | 0x3c00U);
  }

 private:
  const std::uint8_t* data_;
  std::size_t left_;
  std::uint64_t state_ = 0xcbf29ce484222325U;
};

float widened(std::uint16_t half) { return std::bit_cast<float>(static_cast<std::uint32_t>(half) << 16U); }

enum Kind : std::uint8_t { fast_mxfp4, fast_int8, fast_int4, fast_bf16, exact_bf16, exact_f32, exact_mxfp4, kinds };

struct Product {
  Kind kind;
  std::size_t out, columns, rows;
  std::vector<std::uint8_t> bytes, powers;
  std::vector<std::int8_t> codes;
  std::vector<std::uint16_t> halves;
  std::vector<float> floats, x;

  Product(Bytes in)
      : kind(static_cast<Kind>(in.byte() % kinds)),
        out(1U + in.byte() % 40U),
        columns(1U + in.half() % 600U),
        rows(1U + in.byte() % 36U) {
    if (kind == fast_mxfp4 || kind == exact_mxfp4) columns = (columns + 31) / 32 * 32;
    if (kind == fast_int4) columns = (columns + 63) / 64 * 64;
    const bool any = in.byte() % 4 == 0;
    x.resize(rows * columns);
    for (float& value : x) value = widened(in.number(any));
    const std::size_t weights = out * columns;
    switch (kind) {
      case fast_mxfp4:
      case exact_mxfp4:
        for (std::size_t i = 0; i < weights / 2; ++i) bytes.push_back(in.byte());
        for (std::size_t i = 0; i < weights / 32; ++i)
          powers.push_back(any ? in.byte() : static_cast<std::uint8_t>(110 + in.byte() % 20));
        break;
      case fast_int8:
        for (std::size_t i = 0; i < weights; ++i) codes.push_back(static_cast<std::int8_t>(in.byte() % 255 - 127));
        for (std::size_t i = 0; i < out; ++i) floats.push_back(widened(in.number(any)));
        break;
      case fast_int4:
        for (std::size_t i = 0; i < weights / 2; ++i) bytes.push_back(in.byte());
        for (std::size_t i = 0; i < weights / 64; ++i) floats.push_back(widened(in.number(any)));
        break;
      case exact_f32:
        for (std::size_t i = 0; i < weights; ++i) floats.push_back(widened(in.number(any)));
        break;
      default:
        for (std::size_t i = 0; i < weights; ++i) halves.push_back(in.number(any));
    }
  }

  std::vector<float> on(const Table& t) const {
    std::vector<float> y(rows * out);
    std::vector<Block> blocks(rows * blocks_of(columns));
    const Order order = kind == fast_int8 ? Order::natural : Order::even_odd;
    for (std::size_t r = 0; r < rows; ++r) t.quantise(&x[r * columns], columns, order, &blocks[r * blocks_of(columns)], 0);
    switch (kind) {
      case fast_mxfp4:
        t.fast_mxfp4(bytes.data(), powers.data(), out, columns, blocks.data(), rows, y.data(), out);
        break;
      case exact_mxfp4:
        t.matmul_mxfp4(bytes.data(), powers.data(), out, columns, x.data(), rows, columns, y.data(), out);
        break;
      case fast_int8:
        t.fast_int8(codes.data(), floats.data(), out, columns, blocks.data(), rows, y.data(), out);
        break;
      case fast_int4:
        t.fast_int4(bytes.data(), floats.data(), out, columns, blocks.data(), rows, y.data(), out);
        break;
      case exact_f32:
        t.matmul_f32(floats.data(), out, columns, x.data(), rows, columns, y.data(), out);
        break;
      case fast_bf16:
        t.fast_bf16(halves.data(), out, columns, x.data(), rows, columns, y.data(), out);
        break;
      default:
        t.matmul_bf16(halves.data(), out, columns, x.data(), rows, columns, y.data(), out);
    }
    return y;
  }
};

// Equal bits, or both NaN: which payload survives is the processor's choice.
void must_be_same(const std::vector<float>& a, const std::vector<float>& b) {
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (std::bit_cast<std::uint32_t>(a[i]) != std::bit_cast<std::uint32_t>(b[i]) && (a[i] == a[i] || b[i] == b[i])) std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const Product product(Bytes(data, size));
  const std::vector<float> expected = product.on(*find("scalar"));
  for (const Table* table : tables()) {
    if (supported(*table)) must_be_same(expected, product.on(*table));
  }
  if (supported(*find("avx512"))) must_be_same(expected, product.on(test::emulated_amx_table));
  return 0;
}
