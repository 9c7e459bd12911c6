// Which tiers there are, and which of them this machine runs.
#include "kernels/kernels.hpp"
#include "kernels/tiers.hpp"

namespace k3::kernels {
namespace {

constexpr const Table* all[] = {&avx512_table, &avx2_table, &scalar_table};

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
