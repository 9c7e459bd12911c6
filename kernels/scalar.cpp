// The reference tier: arrays of 16 floats, for any x86-64. fma is the C library's, which rounds once whether or not the machine has
// the instruction.
#include "kernels/scalar_outputs.hpp"
#include "kernels/tiers.hpp"

namespace k3::kernels {
namespace {

struct Scalar {
  struct F {
    float lane[lanes];
  };
  static constexpr std::size_t outputs_alone = 2;
  static constexpr std::size_t output_tile = 2;
  static constexpr std::size_t row_tile = 2;
  static constexpr std::size_t wide = 2;

  template <class Make>
  static F each(const Make& make) {
    F result;
    for (std::size_t i = 0; i < lanes; ++i) {
      result.lane[i] = make(i);
    }
    return result;
  }
  static std::uint32_t bits(float x) { return __builtin_bit_cast(std::uint32_t, x); }
  static float from_bits(std::uint32_t x) { return __builtin_bit_cast(float, x); }

  static std::uint32_t largest_bits(const F& a, const F& b) {
    std::uint32_t result = 0;
    for (std::size_t i = 0; i < lanes; ++i) {
      result = bits(a.lane[i]) > result ? bits(a.lane[i]) : result;
      result = bits(b.lane[i]) > result ? bits(b.lane[i]) : result;
    }
    return result;
  }
  // Adding 1.5 * 2^23 leaves no bit for a fraction; the addition rounds to nearest even.
  static std::int32_t round_to_int(float x) { return static_cast<std::int32_t>((x + 0x1.8p23F) - 0x1.8p23F); }
  static std::int32_t round_to_bytes(const F& a, const F& b, bool even_odd, std::int8_t* p) {
    std::int32_t sum = 0;
    for (std::size_t i = 0; i < 2 * lanes; ++i) {
      const std::int32_t q = round_to_int(i < lanes ? a.lane[i] : b.lane[i - lanes]);
      p[even_odd ? i / 2 + i % 2 * lanes : i] = static_cast<std::int8_t>(q);
      sum += q;
    }
    return sum;
  }
  static F round_bf16(const F& a) {
    return each([&](std::size_t i) {
      const std::uint32_t x = bits(a.lane[i]);
      const std::uint32_t rounded = a.lane[i] != a.lane[i] ? x | 0x00400000U : x + 0x7fffU + (x >> 16U & 1U);
      return from_bits(rounded & 0xffff0000U);
    });
  }

  static F set(float x) {
    return each([&](std::size_t) { return x; });
  }
  static float first(const F& a) { return a.lane[0]; }

  template <class Step>
  static F load(const float* p, Step step) {
    F result = {};
    __builtin_memcpy(result.lane, p, step.count * sizeof(float));
    return result;
  }
  template <class Step>
  static void store(float* p, const F& a, Step step) {
    __builtin_memcpy(p, a.lane, step.count * sizeof(float));
  }
  template <class Step>
  static F load_bf16(const std::uint16_t* p, Step step) {
    std::uint16_t halves[lanes] = {};
    __builtin_memcpy(halves, p, step.count * sizeof(std::uint16_t));
    return each([&](std::size_t i) { return from_bits(static_cast<std::uint32_t>(halves[i]) << 16); });
  }
  static F load_mxfp4(const std::uint8_t* p, float scale) {
    constexpr float magnitude[8] = {0.0F, 0.5F, 1.0F, 1.5F, 2.0F, 3.0F, 4.0F, 6.0F};
    return each([&](std::size_t i) {
      const unsigned code = i % 2 == 0 ? p[i / 2] & 15U : p[i / 2] >> 4U;
      return (code < 8 ? magnitude[code] : -magnitude[code - 8]) * scale;
    });
  }
  static void load_transposed(const float* p, F out[4]) {
    for (std::size_t j = 0; j < 4; ++j) {
      out[j] = each([&](std::size_t i) { return p[4 * i + j]; });
    }
  }
  template <class Step>
  static F keep(Step step, const F& a, const F& b) {
    return each([&](std::size_t i) { return i < step.count ? a.lane[i] : b.lane[i]; });
  }

  static F add(const F& a, const F& b) {
    return each([&](std::size_t i) { return a.lane[i] + b.lane[i]; });
  }
  static F sub(const F& a, const F& b) {
    return each([&](std::size_t i) { return a.lane[i] - b.lane[i]; });
  }
  static F mul(const F& a, const F& b) {
    return each([&](std::size_t i) { return a.lane[i] * b.lane[i]; });
  }
  static F div(const F& a, const F& b) {
    return each([&](std::size_t i) { return a.lane[i] / b.lane[i]; });
  }
  static F fma(const F& a, const F& b, const F& c) {
    return each([&](std::size_t i) { return __builtin_fmaf(a.lane[i], b.lane[i], c.lane[i]); });
  }
  static F max(const F& a, const F& b) {
    return each([&](std::size_t i) { return a.lane[i] > b.lane[i] ? a.lane[i] : b.lane[i]; });
  }
  static F min(const F& a, const F& b) {
    return each([&](std::size_t i) { return a.lane[i] < b.lane[i] ? a.lane[i] : b.lane[i]; });
  }
  static F abs(const F& a) {
    return each([&](std::size_t i) { return from_bits(bits(a.lane[i]) & 0x7fffffffU); });
  }
  static F copy_sign(const F& magnitude, const F& sign) {
    return each(
        [&](std::size_t i) { return from_bits((bits(magnitude.lane[i]) & 0x7fffffffU) | (bits(sign.lane[i]) & 0x80000000U)); });
  }
  static F select_less(const F& a, const F& b, const F& x, const F& y) {
    return each([&](std::size_t i) { return a.lane[i] < b.lane[i] ? x.lane[i] : y.lane[i]; });
  }
  static F power_of_two(const F& k) {
    return each([&](std::size_t i) { return from_bits((bits(k.lane[i]) + 127U) << 23); });
  }

  static float sum(F a) {
    for (std::size_t width = lanes / 2; width != 0; width /= 2) {
      for (std::size_t j = 0; j < width; ++j) {
        a.lane[j] += a.lane[j + width];
      }
    }
    return a.lane[0];
  }
  static float largest(F a) {
    for (std::size_t width = lanes / 2; width != 0; width /= 2) {
      for (std::size_t j = 0; j < width; ++j) {
        a.lane[j] = a.lane[j] > a.lane[j + width] ? a.lane[j] : a.lane[j + width];
      }
    }
    return a.lane[0];
  }
};

}  // namespace

constinit const Table scalar_table = make_table<Scalar, ScalarOutputs>("scalar");

}  // namespace k3::kernels
