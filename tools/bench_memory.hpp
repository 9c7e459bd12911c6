// Memory for what is measured cold: more of it than any cache holds, in huge pages, and filled by all threads.
#pragma once

#include <cstddef>
#include <cstdint>

#include "model/compute_pool.hpp"
#include "model/error.hpp"

namespace k3::cli {

class BenchMemory {
 public:
  BenchMemory() = default;
  // `bytes` is rounded up to whole blocks. Pages come when they are first written, so fill() it.
  static Result<BenchMemory> make(std::size_t bytes);
  BenchMemory(BenchMemory&& other) noexcept;
  BenchMemory& operator=(BenchMemory&& other) noexcept;
  ~BenchMemory();

  std::byte* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }

 private:
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
};

// How memory is shared out among threads, for filling and for reading.
constexpr std::size_t bench_block = 4U << 20;

// Fills in which every value is of a size that weights have: a denormal or a NaN would cost time of its own.
enum class Fill {
  ones,          // bytes of 1
  codes,         // random bytes but 0x80: nibbles of any value, and int8 of -127..127
  mxfp4_scales,  // 120..122, as released
  bf16,          // around 2^-6, either sign
  floats,        // float32 around 2^-6, either sign
  small_scales,  // float32, 2^-10
};
void fill(ComputePool& pool, const BenchMemory& memory, Fill what);

}  // namespace k3::cli
