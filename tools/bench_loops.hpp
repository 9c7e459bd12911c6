// The loops that show what a machine can do at most: multiply-adds on registers, and reads from memory.
//
// Each instruction set has a file of its own, compiled with its own flags. Nothing of it may be linked into another: it makes
// templates only of types in its unnamed namespace, and calls nothing inline, the standard library included.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace k3::cli {

// Independent multiply-adds on registers, enough of them in flight that only the units' number counts.
struct PeakLoop {
  const char* unit;   // the instruction
  double operations;  // of one round; a multiply-add is two
  void (*run)(std::size_t rounds);
};

// Reads a block whose size is a multiple of `read_unit`, and hands back a mix of all of it, so that no read can be left out.
struct ReadLoop {
  const char* name;
  std::uint64_t (*run)(const std::byte* block, std::size_t bytes);
};

constexpr std::size_t read_unit = 4096;

// What this machine runs; never empty.
std::span<const PeakLoop* const> bf16_loops();  // a float32 fma where no unit takes bf16
std::span<const PeakLoop* const> int8_loops();
std::span<const ReadLoop> read_loops();

namespace loops {

// By instruction set; only for who knows that the machine has it.
extern const PeakLoop amx_bf16, amx_int8;
extern const PeakLoop avx512_bf16, avx512_float, avx512_int8;
extern const PeakLoop avx2_float, avx2_int8;
extern const PeakLoop base_float, base_int8;
constexpr std::size_t read_loop_count = 6;
const ReadLoop* avx512_reads();
const ReadLoop* avx2_reads();
const ReadLoop* base_reads();

}  // namespace loops
}  // namespace k3::cli
