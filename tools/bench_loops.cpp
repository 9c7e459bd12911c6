// Which loops this machine runs.
#include "tools/bench_loops.hpp"

#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <vector>

namespace k3::cli {
namespace {

struct Tiles {
  bool bf16 = false, int8 = false;
};

// Tiles need the processor, and the kernel's leave: their registers are too large to be saved for everyone. The grant is for the
// whole process, its running threads included.
Tiles tiles() {
  constexpr long request_permission = 0x1023, tile_data = 18;
  constexpr unsigned bf16_bit = 22, tile_bit = 24, int8_bit = 25;
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d) == 0 || ((d >> tile_bit) & 1U) == 0) return {};
  if (::syscall(SYS_arch_prctl, request_permission, tile_data) != 0) return {};
  return {((d >> bf16_bit) & 1U) != 0, ((d >> int8_bit) & 1U) != 0};
}

struct Machine {
  std::vector<const PeakLoop*> bf16{&loops::base_float}, int8{&loops::base_int8};
  const ReadLoop* reads = loops::base_reads();
};

Machine look_around() {
  Machine machine;
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
    machine.bf16.push_back(&loops::avx2_float);
    machine.int8.push_back(&loops::avx2_int8);
    machine.reads = loops::avx2_reads();
  }
  if (__builtin_cpu_supports("avx512f")) {
    machine.bf16.push_back(&loops::avx512_float);
    if (__builtin_cpu_supports("avx512bf16")) machine.bf16.push_back(&loops::avx512_bf16);
    if (__builtin_cpu_supports("avx512vnni")) machine.int8.push_back(&loops::avx512_int8);
    machine.reads = loops::avx512_reads();
  }
  const Tiles has = tiles();
  if (has.bf16) machine.bf16.push_back(&loops::amx_bf16);
  if (has.int8) machine.int8.push_back(&loops::amx_int8);
  return machine;
}

const Machine& machine() {
  static const Machine here = look_around();
  return here;
}

}  // namespace

std::span<const PeakLoop* const> bf16_loops() { return machine().bf16; }
std::span<const PeakLoop* const> int8_loops() { return machine().int8; }
std::span<const ReadLoop> read_loops() { return {machine().reads, loops::read_loop_count}; }

}  // namespace k3::cli
