// `k3 bench kernels`: each kernel on cold weights, against memory's speed and the best multiply-add unit.
#include <fmt/format.h>

#include <CLI/Option.hpp>
#include <CLI/Validators.hpp>
#include <algorithm>
#include <cstdio>
#include <limits>

#include "tools/bench.hpp"
#include "tools/bench_cases.hpp"
#include "tools/bench_machine.hpp"
#include "tools/common_flags.hpp"
#include "tools/input_output.hpp"

namespace k3::cli {
namespace {

struct Flags {
  std::string isa = "auto";
  unsigned threads = 0;
  std::vector<std::size_t> rows{1, 4, 32, 256};
  std::vector<std::string> names;
  bool json = false, quick = false;
};

// How long is measured. The kernels and the machine's limits take turns, so that what befalls the machine befalls all of them, and
// a turn is about as long as a pass over the memory: both meet as many of a shared machine's hiccups.
struct Effort {
  int rounds = 9;
  double seconds_a_turn = 0.05;
  std::size_t calls_a_turn = 256;
  double seconds_in_all = 4;  // of one kernel that is slow
  std::size_t memory = std::size_t{2} << 30;
};

Effort effort_of(const Flags& flags) {
  Effort effort;
  if (flags.quick) {
    effort.rounds = 2;
    effort.seconds_a_turn = 0.02;
    effort.seconds_in_all = 0.5;
    effort.memory = std::size_t{512} << 20;
  }
  return effort;
}

struct Measured {
  BenchCase work;
  std::vector<double> turns;  // seconds a call
  double best = std::numeric_limits<double>::infinity(), spent = 0;
};

// One turn. The first call of the first turn only makes the pages of the buffers.
void take_turn(Measured& kernel, const Effort& effort) {
  if (kernel.spent > effort.seconds_in_all) return;
  if (kernel.turns.empty()) {
    const double begin = seconds_now();
    kernel.work.run();
    kernel.spent = seconds_now() - begin;
    if (kernel.spent > effort.seconds_in_all) {  // then the pages do not matter
      kernel.turns.push_back(kernel.spent);
      kernel.best = kernel.spent;
      return;
    }
  }
  const double begin = seconds_now();
  std::size_t calls = 0;
  for (double last = begin, now = begin; calls < effort.calls_a_turn && now - begin < effort.seconds_a_turn; last = now) {
    kernel.work.run();
    now = seconds_now();
    kernel.best = std::min(kernel.best, now - last);
    ++calls;
  }
  const double all = seconds_now() - begin;
  kernel.turns.push_back(all / static_cast<double>(calls));
  kernel.spent += all;
}

MachineLimits measure(std::vector<Measured>& kernels, const BenchData& data, ComputePool& pool, const Effort& effort,
                      BenchProgress& progress) {
  MachineLimits limits;
  std::size_t turn = 0;
  for (; turn < count_ram_loops(); ++turn) measure_ram(pool, data.any(), turn, limits);
  for (int round = 1; round <= effort.rounds; ++round) {
    measure_peaks(pool, limits);
    for (Measured& kernel : kernels) {
      progress.tell(fmt::format("round {} of {}", round, effort.rounds),
                    fmt::format("{} x {}", kernel.work.name, kernel.work.rows));
      take_turn(kernel, effort);
      measure_ram(pool, data.any(), turn++, limits);
    }
  }
  measure_peaks(pool, limits);
  return limits;
}

struct Line {
  std::string name;
  std::size_t rows = 0;
  double seconds = 0, best = 0;  // the median turn, which counts; the best call, to tell noise from slowness
  double bytes = 0, operations = 0, bound = 0;
  bool by_memory = true;
  double ratio() const { return bound / seconds; }
};

Line judge(const Measured& kernel, const MachineLimits& limits) {
  Line line{kernel.work.name, kernel.work.rows};
  line.seconds = median(kernel.turns);
  line.best = kernel.best;
  line.bytes = kernel.work.bytes;
  line.operations = kernel.work.operations;
  const double memory = line.bytes / limits.ram_bytes, compute = line.operations / limits.bf16_operations;
  line.by_memory = memory >= compute;
  line.bound = std::max(memory, compute);
  return line;
}

void print_table(const std::vector<Line>& lines, bool quick) {
  fmt::print("\n{:<14}{:>6}{:>11}{:>11}{:>9}{:>11}  {:<9}{:>6}\n", "kernel", "rows", "ms", "best ms", "GB/s", "GFLOP/s", "bound",
             "ratio");
  for (const Line& line : lines) {
    fmt::print("{:<14}{:>6}{:>11.3f}{:>11.3f}{:>9.2f}{:>11.1f}  {:<9}{:>6.3f}\n", line.name, line.rows, line.seconds * 1e3,
               line.best * 1e3, line.bytes / line.seconds / 1e9, line.operations / line.seconds / 1e9,
               line.by_memory ? "ram" : "compute", line.ratio());
  }
  if (quick) fmt::print("\nquick: few repeats over little memory, good only to see that it works\n");
}

void write_line(json::Writer& writer, const Line& line, const std::string& isa) {
  writer.begin_object().key("name").string(line.name);
  writer.key("rows").integer(static_cast<std::int64_t>(line.rows));
  writer.key("isa").string(isa);
  writer.key("ms").number(line.seconds * 1e3);
  writer.key("best_ms").number(line.best * 1e3);
  writer.key("gbps").number(line.bytes / line.seconds / 1e9);
  writer.key("gflops").number(line.operations / line.seconds / 1e9);
  writer.key("bound").string(line.by_memory ? "ram" : "compute");
  writer.key("ratio").number(line.ratio());
  writer.end_object();
}

std::string as_json(const std::vector<Line>& lines, const MachineLimits& limits, const std::string& isa, const Flags& flags) {
  std::string out;
  json::Writer writer(out);
  writer.begin_object().key("machine").begin_object();
  write_limits(writer, limits, isa, flags.threads);
  writer.end_object();
  writer.key("quick").boolean(flags.quick);
  writer.key("results").begin_array();
  for (const Line& line : lines) write_line(writer, line, isa);
  writer.end_array().end_object();
  return out + "\n";
}

// Nothing is faster than its bound: then the bound, or the kernel's data, is not what it is taken for.
int check(const std::vector<Line>& lines) {
  constexpr double most = 1.05;
  int code = exit_ok;
  for (const Line& line : lines) {
    if (line.rows != 1 || line.ratio() <= most) continue;
    code = report(fmt::format("{} x 1 row is {:.2f} times as fast as this machine's own limit: the measurement is wrong", line.name,
                              line.ratio()));
  }
  return code;
}

int bench_kernels(const Flags& flags) {
  const Effort effort = effort_of(flags);
  const kernels::Table* table = kernels::select(flags.isa);
  ComputePool pool(flags.threads);
  BenchProgress progress;
  BenchData data;
  BenchSetup setup{table, &pool, effort.memory, flags.rows, flags.names};
  auto cases = make_bench_cases(setup, data);
  if (cases.has_error()) return report(cases.error());
  std::vector<Measured> measured;
  for (BenchCase& work : *cases) measured.push_back({std::move(work), {}});
  const MachineLimits limits = measure(measured, data, pool, effort, progress);
  std::vector<Line> lines;
  for (const Measured& kernel : measured) lines.push_back(judge(kernel, limits));
  Flags told = flags;
  told.threads = pool.threads();
  if (flags.json) {
    if (auto done = write_out(as_json(lines, limits, table->name, told)); done.has_error()) return report(done.error());
  } else {
    print_limits(limits, table->name, told.threads);
    print_table(lines, flags.quick);
  }
  return check(lines);
}

CLI::Validator one_of_the_cases() {
  return {[](std::string& value) -> std::string {
            std::string known;
            for (const std::string_view name : bench_case_names()) {
              if (value == name) return {};
              known += (known.empty() ? "" : ", ") + std::string(name);
            }
            return "'" + value + "' is not one of " + known;
          },
          "NAME"};
}

void check_tier(const std::string& isa) {
  if (kernels::select(isa) != nullptr) return;
  if (kernels::find(isa) != nullptr) throw usage_error("--isa: '" + isa + "' needs instructions that this machine lacks");
  std::string known = "auto";
  for (const kernels::Table* table : kernels::tables()) known += std::string(", ") + table->name;
  throw usage_error("--isa: '" + isa + "' is not one of " + known);
}

}  // namespace

void add_bench_kernels(CLI::App& bench, Chosen& chosen) {
  auto flags = std::make_shared<Flags>();
  CLI::App* command = bench.add_subcommand("kernels", "each kernel on weights of the released size that no cache holds");
  command->add_option("--isa", flags->isa, "instruction set of the kernels")->envname("K3_ISA")->capture_default_str();
  command->add_option("--threads", flags->threads, "threads; default: every core the process may use")
      ->check(whole_number(1, 1024));
  command->add_option("--rows", flags->rows, "how many rows share the weights, such as 1,32")
      ->delimiter(',')
      ->check(whole_number(1, 4096))
      ->capture_default_str();
  command->add_option("--only", flags->names, "only these kernels, such as mxfp4_expert,int8")
      ->delimiter(',')
      ->check(one_of_the_cases());
  command->add_flag("--json", flags->json, "one object instead of a table");
  command->add_flag("--quick", flags->quick, "few repeats over little memory: to see that it works");
  command->footer(
      "Takes 6.4 GiB of memory, a quarter with --quick, less with --only.\nExample:\n  k3 bench kernels --only mxfp4_expert --rows "
      "1");
  command->callback([flags, &chosen] {
    check_tier(flags->isa);
    chosen = [flags] { return bench_kernels(*flags); };
  });
}

}  // namespace k3::cli
