#include "tools/bench_machine.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>

#include "tools/bench_loops.hpp"

namespace k3::cli {
namespace {

constexpr double peak_seconds = 0.02;

// Operations a second. Many short pieces rather than one a thread: a thread that wakes late then does fewer of them.
double peak_of(ComputePool& pool, const PeakLoop& loop) {
  constexpr std::size_t rounds = 5000;
  loop.run(rounds);
  const double before = seconds_now();
  loop.run(rounds);
  const double piece = std::max(seconds_now() - before, 1e-7);
  const auto pieces = static_cast<std::size_t>(std::ceil(peak_seconds / piece)) * pool.threads();
  const double begin = seconds_now();
  pool.run(pieces, [&](std::size_t) { loop.run(rounds); });
  return loop.operations * rounds * static_cast<double>(pieces) / (seconds_now() - begin);
}

void measure_best(ComputePool& pool, std::span<const PeakLoop* const> loops, double& best, std::string& unit) {
  for (const PeakLoop* loop : loops) {
    const double speed = peak_of(pool, *loop);
    if (speed <= best) continue;
    best = speed;
    unit = loop->unit;
  }
}

}  // namespace

double seconds_now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

void measure_ram(ComputePool& pool, const BenchMemory& memory, std::size_t turn, MachineLimits& limits) {
  static_assert(bench_block % read_unit == 0);
  const ReadLoop& loop = read_loops()[turn % read_loops().size()];
  std::atomic<std::uint64_t> sink{0};
  const double begin = seconds_now();
  pool.run(memory.bytes() / bench_block, [&](std::size_t block) {
    sink.fetch_xor(loop.run(memory.data() + block * bench_block, bench_block), std::memory_order_relaxed);
  });
  const double speed = static_cast<double>(memory.bytes()) / (seconds_now() - begin);
  limits.reads.resize(read_loops().size());
  limits.reads[turn % read_loops().size()].push_back(speed);
  limits.ram_bytes = 0;
  for (std::size_t i = 0; i < limits.reads.size(); ++i) {
    if (limits.reads[i].empty() || median(limits.reads[i]) <= limits.ram_bytes) continue;
    limits.ram_bytes = median(limits.reads[i]);
    limits.ram_loop = read_loops()[i].name;
  }
}

std::size_t count_ram_loops() { return read_loops().size(); }

void measure_peaks(ComputePool& pool, MachineLimits& limits) {
  measure_best(pool, bf16_loops(), limits.bf16_operations, limits.bf16_unit);
  measure_best(pool, int8_loops(), limits.int8_operations, limits.int8_unit);
}

void write_limits(json::Writer& writer, const MachineLimits& limits, const std::string& isa, unsigned threads) {
  writer.key("isa").string(isa);
  writer.key("threads").integer(threads);
  writer.key("ram_gbps").number(limits.ram_bytes / 1e9);
  writer.key("ram_loop").string(limits.ram_loop);
  writer.key("int8_tops").number(limits.int8_operations / 1e12);
  writer.key("int8_unit").string(limits.int8_unit);
  writer.key("bf16_tflops").number(limits.bf16_operations / 1e12);
  writer.key("bf16_unit").string(limits.bf16_unit);
}

void print_limits(const MachineLimits& limits, const std::string& isa, unsigned threads) {
  fmt::print("machine: kernels {}, {} thread{}\n", isa, threads, threads == 1 ? "" : "s");
  fmt::print("  memory  {:8.2f} GB/s      ({})\n", limits.ram_bytes / 1e9, limits.ram_loop);
  fmt::print("  bf16    {:8.3f} TFLOP/s   ({})\n", limits.bf16_operations / 1e12, limits.bf16_unit);
  fmt::print("  int8    {:8.3f} TOP/s     ({})\n", limits.int8_operations / 1e12, limits.int8_unit);
}

}  // namespace k3::cli
