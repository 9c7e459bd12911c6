// Outputs in lanes, in arrays: the reference.
#pragma once

#include "kernels/outputs.hpp"

namespace k3::kernels {
namespace {

struct ScalarOutputs {
  static constexpr std::size_t outputs = 4;
  struct I {
    std::uint32_t lane[outputs];
  };
  struct F {
    float lane[outputs];
  };
  static constexpr std::size_t few_rows = 1;
  static constexpr std::size_t row_tile = 2;
  static constexpr std::size_t bf16_row_tile = 2;
  static constexpr std::size_t tiles = 1;
  static constexpr std::int32_t mxfp4_offset = 0;
  static constexpr std::int32_t int4_offset = 0;
  static constexpr std::int32_t int8_offset = 0;

  template <class V, class Make>
  static V each(const Make& make) {
    V result;
    for (std::size_t i = 0; i < outputs; ++i) {
      result.lane[i] = make(i);
    }
    return result;
  }
  // f of each byte.
  template <class Function>
  static I bytes(const I& a, const Function& f) {
    return each<I>([&](std::size_t i) {
      std::uint32_t result = 0;
      for (unsigned shift = 0; shift < 32; shift += 8) {
        result |= (static_cast<std::uint32_t>(f((a.lane[i] >> shift) & 255U)) & 255U) << shift;
      }
      return result;
    });
  }
  static float from_bits(std::uint32_t x) { return __builtin_bit_cast(float, x); }

  static void load_dwords(const std::uint8_t* p, std::size_t stride, I out[4]) {
    for (std::size_t d = 0; d < 4; ++d) {
      for (std::size_t o = 0; o < outputs; ++o) {
        __builtin_memcpy(&out[d].lane[o], p + o * stride + 4 * d, 4);
      }
    }
  }
  static I set(std::int32_t x) {
    return each<I>([&](std::size_t) { return static_cast<std::uint32_t>(x); });
  }
  static F set(float x) {
    return each<F>([&](std::size_t) { return x; });
  }
  static F load(const float* p) {
    return each<F>([&](std::size_t i) { return p[i]; });
  }
  static void store(float* p, const F& a) { __builtin_memcpy(p, a.lane, sizeof(a.lane)); }

  static I low_nibbles(const I& a) {
    return bytes(a, [](std::uint32_t b) { return b & 15U; });
  }
  static I high_nibbles(const I& a) {
    return bytes(a, [](std::uint32_t b) { return b >> 4U; });
  }
  static I mxfp4_codes(const I& nibbles) {
    constexpr std::int8_t doubled[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};
    return bytes(nibbles, [&](std::uint32_t n) { return doubled[n]; });
  }
  static I int4_codes(const I& nibbles) {
    return bytes(nibbles, [](std::uint32_t n) { return static_cast<std::int32_t>(n) - 8; });
  }
  static I int8_codes(const I& a) { return a; }
  template <std::int32_t offset>
  static I dot4(const I& acc, const I& codes, const std::int8_t* p) {
    return each<I>([&](std::size_t i) {
      std::int32_t sum = static_cast<std::int32_t>(acc.lane[i]);
      for (unsigned k = 0; k < 4; ++k) {
        sum += static_cast<std::int8_t>(codes.lane[i] >> (8 * k)) * p[k];
      }
      return static_cast<std::uint32_t>(sum);
    });
  }
  static I load_codes(const std::uint8_t* p) {
    I result;
    __builtin_memcpy(result.lane, p, sizeof(result.lane));
    return result;
  }
  static void store_codes(std::uint8_t* p, const I& a) { __builtin_memcpy(p, a.lane, sizeof(a.lane)); }

  static F to_float(const I& a) {
    return each<F>([&](std::size_t i) { return static_cast<float>(static_cast<std::int32_t>(a.lane[i])); });
  }
  static F exponent(const I& a) {
    return each<F>([&](std::size_t i) {
      const std::uint32_t scale = a.lane[i] & 255U;
      return from_bits(scale == 0 ? 0x00400000U : scale << 23U);
    });
  }
  static I shift_byte(const I& a) {
    return each<I>([&](std::size_t i) { return a.lane[i] >> 8U; });
  }
  static F as_float(const I& a) {
    return each<F>([&](std::size_t i) { return from_bits(a.lane[i]); });
  }
  static F even_bf16(const I& a) {
    return each<F>([&](std::size_t i) { return from_bits(a.lane[i] << 16U); });
  }
  static F odd_bf16(const I& a) {
    return each<F>([&](std::size_t i) { return from_bits(a.lane[i] & 0xffff0000U); });
  }
  // --- [group][4], one group ---
  static constexpr std::size_t groups = 1;

  static I load_bytes(const std::uint8_t* p) { return load_codes(p); }
  static I load_bytes(const std::int8_t* p) {
    I result;
    __builtin_memcpy(result.lane, p, sizeof(result.lane));
    return result;
  }
  static void load_even_odd(const std::int8_t* q, I& even, I& odd) {
    even = load_bytes(q);
    odd = load_bytes(q + sizeof(I));
  }
  template <std::int32_t offset>
  static I dot_bytes(const I& codes, const I& x) {
    return each<I>([&](std::size_t i) {
      std::int32_t sum = 0;
      for (unsigned shift = 0; shift < 32; shift += 8) {
        sum += static_cast<std::int8_t>(codes.lane[i] >> shift) * static_cast<std::int8_t>(x.lane[i] >> shift);
      }
      return static_cast<std::uint32_t>(sum);
    });
  }
  template <std::int32_t offset>
  static I dot_pair(const I& a, const I& xa, const I& b, const I& xb) {
    return add(dot_bytes<offset>(a, xa), dot_bytes<offset>(b, xb));
  }
  static I fold(const I& a, const I& b) { return add(a, b); }
  static I reduce4(const I s[4]) {
    return each<I>([&](std::size_t i) { return s[i].lane[0] + s[i].lane[1] + s[i].lane[2] + s[i].lane[3]; });
  }
  static F spread(const float* p) { return set(*p); }
  static I spread(const std::int32_t* p) { return set(*p); }
  static F exponents4(const std::uint8_t* p, std::size_t stride) {
    return exponent(each<I>([&](std::size_t i) { return p[i * stride]; }));
  }
  static F pair_scales4(const float* p, std::size_t stride) {
    return each<F>([&](std::size_t i) { return p[i * stride]; });
  }
  static F keep_groups(std::size_t, const F& a, const F&) { return a; }
  static void add_chains(const F chain[4], float out[4]) {
    for (std::size_t i = 0; i < 4; ++i) {
      out[i] = (chain[0].lane[i] + chain[1].lane[i]) + (chain[2].lane[i] + chain[3].lane[i]);
    }
  }

  static I multiply(const I& a, const I& b) {
    return each<I>([&](std::size_t i) { return a.lane[i] * b.lane[i]; });
  }
  static I add(const I& a, const I& b) {
    return each<I>([&](std::size_t i) { return a.lane[i] + b.lane[i]; });
  }
  static F mul(const F& a, const F& b) {
    return each<F>([&](std::size_t i) { return a.lane[i] * b.lane[i]; });
  }
  static F add(const F& a, const F& b) {
    return each<F>([&](std::size_t i) { return a.lane[i] + b.lane[i]; });
  }
  static F fma(const F& a, const F& b, const F& c) {
    return each<F>([&](std::size_t i) { return __builtin_fmaf(a.lane[i], b.lane[i], c.lane[i]); });
  }
};

}  // namespace
}  // namespace k3::kernels
