// Which tiers there are, and which of them this machine runs.
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "kernels/kernels.hpp"
#include "kernels/tiers.hpp"

namespace k3::kernels {
namespace {

constexpr const Table* all[] = {&amx_table, &avx512_table, &avx2_table, &scalar_table};

bool has_tiles() {
  unsigned a = 0;
  unsigned b = 0;
  unsigned c = 0;
  unsigned d = 0;
  constexpr unsigned bf16_tile_int8 = 1U << 22U | 1U << 24U | 1U << 25U;
  return __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (d & bf16_tile_int8) == bf16_tile_int8;
}

// Whether the system saves tiles (XCR0, which a machine with AVX-512 in use can be asked for) and lets this process use them.
// The grant is for all threads, those that run already too.
bool may_use_tiles() {
  unsigned low = 0;
  unsigned high = 0;
  asm volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  constexpr unsigned shapes_and_data = 1U << 17U | 1U << 18U;
  constexpr long request_permission = 0x1023;
  constexpr long tile_data = 18;
  return (low & shapes_and_data) == shapes_and_data && syscall(SYS_arch_prctl, request_permission, tile_data) == 0;
}

}  // namespace

std::span<const Table* const> tables() { return all; }

// __builtin_cpu_supports also asks XGETBV, so a system that does not save the wide registers counts as lacking them.
bool supported(const Table& table) {
  __builtin_cpu_init();
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2");
  if (&table == &avx2_table) {
    return avx2;
  }
  if (&table == &avx512_table) {
    return avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512vbmi") && __builtin_cpu_supports("avx512vnni");
  }
  if (&table == &amx_table) {
    // Asked once. The arithmetic of tiles is known by measurement: a processor that does it another way counts as one without.
    static const bool amx =
        supported(avx512_table) && has_tiles() && may_use_tiles() && fast_products_agree(amx_table, avx512_table);
    return amx;
  }
  return &table == &scalar_table;
}

const Table* find(std::string_view name) {
  for (const Table* table : all) {
    if (name == table->name) {
      return table;
    }
  }
  return nullptr;
}

const Table* select(std::string_view name) {
  if (!name.empty() && name != "auto") {
    const Table* const table = find(name);
    return table != nullptr && supported(*table) ? table : nullptr;
  }
  for (const Table* table : all) {
    if (supported(*table)) {
      return table;
    }
  }
  return nullptr;
}

}  // namespace k3::kernels
