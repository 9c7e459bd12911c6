#include "tools/bench_memory.hpp"

#include <sys/mman.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace k3::cli {
namespace {

class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed * 0x9e3779b97f4a7c15ULL + 1) {}
  std::uint64_t next() {
    state_ ^= state_ << 13;
    state_ ^= state_ >> 7;
    state_ ^= state_ << 17;
    return state_;
  }

 private:
  std::uint64_t state_;
};

// 0x80 is -128, which no int8 weight is.
std::uint64_t without_0x80(std::uint64_t bits) {
  std::uint8_t bytes[8];
  std::memcpy(bytes, &bits, sizeof bytes);
  for (std::uint8_t& byte : bytes) byte = byte == 0x80 ? 0x81 : byte;
  std::memcpy(&bits, bytes, sizeof bytes);
  return bits;
}

// 84 of 100 are 121, 15 are 120.
std::uint64_t scale_bytes(std::uint64_t bits) {
  std::uint64_t out = 0;
  for (unsigned i = 0; i < 8; ++i) {
    const unsigned value = (bits >> (8 * i)) & 0xffU;
    out |= std::uint64_t{value < 38 ? 120U : value < 254 ? 121U : 122U} << (8 * i);
  }
  return out;
}

std::uint64_t word(Fill what, std::uint64_t bits) {
  switch (what) {
    case Fill::ones:
      return 0x0101010101010101ULL;
    case Fill::codes:
      return without_0x80(bits);
    case Fill::mxfp4_scales:
      return scale_bytes(bits);
    case Fill::bf16:  // sign and mantissa random, the exponent one of two
      return (bits & 0x80ff80ff80ff80ffULL) | 0x3c003c003c003c00ULL;
    case Fill::floats:
      return (bits & 0x80ffffff80ffffffULL) | 0x3c0000003c000000ULL;
    case Fill::small_scales:
      return 0x3a8000003a800000ULL;
  }
  return 0;
}

}  // namespace

Result<BenchMemory> BenchMemory::make(std::size_t bytes) {
  BenchMemory memory;
  memory.bytes_ = (bytes + bench_block - 1) / bench_block * bench_block;
  void* data = ::mmap(nullptr, memory.bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED) {
    return fail(ErrorCode::out_of_memory, "cannot map " + std::to_string(memory.bytes_) + " bytes: " + std::strerror(errno));
  }
  ::madvise(data, memory.bytes_, MADV_HUGEPAGE);  // a refusal costs speed only
  memory.data_ = static_cast<std::byte*>(data);
  return memory;
}

BenchMemory::BenchMemory(BenchMemory&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}

BenchMemory& BenchMemory::operator=(BenchMemory&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

BenchMemory::~BenchMemory() {
  if (data_ != nullptr) ::munmap(data_, bytes_);
}

void fill(ComputePool& pool, const BenchMemory& memory, Fill what) {
  pool.run(memory.bytes() / bench_block, [&](std::size_t block) {
    Random random(block + 1);
    std::byte* const begin = memory.data() + block * bench_block;
    for (std::size_t i = 0; i < bench_block; i += sizeof(std::uint64_t)) {
      const std::uint64_t bits = word(what, random.next());
      std::memcpy(begin + i, &bits, sizeof bits);
    }
  });
}

}  // namespace k3::cli
