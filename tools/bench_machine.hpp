// The machine's own limits, against which everything else is measured: how fast memory is read, how fast it multiplies. On a shared
// machine both change from second to second, so they are measured again and again during a run. Of multiply-adds the best counts;
// of memory, which neighbours share, the median of the best loop, as the median of a kernel is what is held against it.
#pragma once

#include <string>
#include <vector>

#include "model/compute_pool.hpp"
#include "model/text/json.hpp"
#include "tools/bench_memory.hpp"

namespace k3::cli {

struct MachineLimits {
  std::vector<std::vector<double>> reads;  // bytes a second of each pass, for each loop
  double ram_bytes = 0;                    // a second, of all threads together
  std::string ram_loop;                    // which loop that was
  double bf16_operations = 0;              // a second; a multiply-add is two
  std::string bf16_unit;                   // by which instruction
  double int8_operations = 0;
  std::string int8_unit;
};

// One of the read loops over all of `memory`; `turn` counts through them.
void measure_ram(ComputePool& pool, const BenchMemory& memory, std::size_t turn, MachineLimits& limits);
std::size_t count_ram_loops();
// All multiply-add loops, some 20 ms each.
void measure_peaks(ComputePool& pool, MachineLimits& limits);

// Members of the object `machine`; `isa` is the kernels' tier.
void write_limits(json::Writer& writer, const MachineLimits& limits, const std::string& isa, unsigned threads);
void print_limits(const MachineLimits& limits, const std::string& isa, unsigned threads);

double median(std::vector<double> values);  // of at least one
double seconds_now();                       // of a clock that never goes back

}  // namespace k3::cli
