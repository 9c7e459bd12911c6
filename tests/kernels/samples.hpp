// Inputs of the kernel tests, the same in every run, and comparison of results by their bits.
#pragma once

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "kernels/kernels.hpp"
#include "tests/kernels/emulated_amx.hpp"

namespace k3::kernels::test {

class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed * 0x9e3779b97f4a7c15U + 1) {}
  std::uint32_t next() {
    state_ ^= state_ << 13;
    state_ ^= state_ >> 7;
    state_ ^= state_ << 17;
    return static_cast<std::uint32_t>(state_ >> 32);
  }
  // In [-1, 1).
  float unit() { return static_cast<float>(static_cast<std::int32_t>(next())) * 0x1p-31F; }

 private:
  std::uint64_t state_;
};

enum class Kind { plain, denormal, special };  // special: NaN, infinities, zeros of both signs and the limits among plain values

inline float sample(Random& random, Kind kind) {
  constexpr float specials[] = {std::numeric_limits<float>::quiet_NaN(),
                                std::numeric_limits<float>::infinity(),
                                -std::numeric_limits<float>::infinity(),
                                0.0F,
                                -0.0F,
                                std::numeric_limits<float>::max(),
                                std::numeric_limits<float>::lowest(),
                                std::numeric_limits<float>::denorm_min()};
  if (kind == Kind::denormal) {
    return random.unit() * 0x1p-127F;
  }
  if (kind == Kind::special && random.next() % 24 == 0) {
    return specials[random.next() % 8];
  }
  return random.unit() * 3.0F;
}

// n elements that end where their allocation ends, so that a sanitizer sees a read beyond; offset elements before them make the
// address of the first a multiple of nothing in particular.
template <class Value>
class Buffer {
 public:
  Buffer(std::size_t n, std::size_t offset) : storage_(n + offset), offset_(offset) {}
  Value* data() { return storage_.data() + offset_; }
  Value& operator[](std::size_t i) { return storage_[offset_ + i]; }
  std::size_t size() const { return storage_.size() - offset_; }
  std::vector<Value> values() const { return {storage_.begin() + static_cast<std::ptrdiff_t>(offset_), storage_.end()}; }

 private:
  std::vector<Value> storage_;
  std::size_t offset_;
};
using Floats = Buffer<float>;

inline Floats floats(std::size_t n, std::size_t offset, std::uint64_t seed, Kind kind = Kind::plain) {
  Random random(seed);
  Floats result(n, offset);
  for (std::size_t i = 0; i < n; ++i) {
    result[i] = sample(random, kind);
  }
  return result;
}

inline Buffer<std::uint16_t> halves(std::size_t n, std::size_t offset, std::uint64_t seed, Kind kind = Kind::plain) {
  Random random(seed);
  Buffer<std::uint16_t> result(n, offset);
  for (std::size_t i = 0; i < n; ++i) {
    result[i] = static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(sample(random, kind)) >> 16);
  }
  return result;
}

inline float widened(std::uint16_t half) { return std::bit_cast<float>(static_cast<std::uint32_t>(half) << 16); }

// Equal bits, or both NaN: which payload survives an operation on two NaNs is the processor's choice of operand.
inline bool same(float a, float b) {
  return std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b) || (a != a && b != b);
}

// Empty when all is the same, otherwise where the first difference is.
inline std::string difference(const std::vector<float>& expected, const std::vector<float>& got) {
  if (expected.size() != got.size()) {
    return "sizes " + std::to_string(expected.size()) + " and " + std::to_string(got.size());
  }
  for (std::size_t i = 0; i < got.size(); ++i) {
    if (!same(expected[i], got[i])) {
      return "at " + std::to_string(i) + " expected " + std::to_string(expected[i]) + ", got " + std::to_string(got[i]);
    }
  }
  return {};
}

inline const Table& scalar() { return *find("scalar"); }

// The emulated tier too, last, so that the best one stays first.
inline std::vector<const Table*> supported_tables() {
  std::vector<const Table*> result;
  for (const Table* table : tables()) {
    if (supported(*table)) {
      result.push_back(table);
    }
  }
  if (supported(*find("avx512"))) {
    result.push_back(&emulated_amx_table);
  }
  return result;
}

// Distance from the exact value in units of the last place of a float of its size.
inline double ulps(float got, double exact) {
  const double size = std::fabs(exact);
  const int exponent = size < 0x1p-126 ? -126 : std::ilogb(size);
  return std::fabs(static_cast<double>(got) - exact) / std::ldexp(1.0, exponent - 23);
}

}  // namespace k3::kernels::test
