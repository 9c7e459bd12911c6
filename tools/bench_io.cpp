// `k3 bench io`: the drive under a model's own files, at several block sizes and depths.
#include <fmt/format.h>

#include <CLI/Option.hpp>
#include <CLI/Validators.hpp>
#include <algorithm>
#include <memory>

#include "model/experts/drive_meter.hpp"
#include "tools/bench.hpp"
#include "tools/common_flags.hpp"
#include "tools/input_output.hpp"

namespace k3::cli {
namespace {

constexpr unsigned depths[] = {1, 4, 16, 32};
// The last is an expert of the released size.
constexpr std::size_t blocks[] = {1U << 20, 4U << 20, 4284U * 4096U};

struct Flags {
  std::string model, dirs;
  double seconds = 1;
  bool json = false;
};

struct Line {
  unsigned depth = 0;
  std::size_t block = 0;
  double bytes = 0;  // a second
};

Result<std::vector<Line>> measure(experts::DriveMeter& reads, double seconds) {
  BenchProgress progress;
  std::vector<Line> lines;
  for (const std::size_t block : blocks) {
    for (const unsigned depth : depths) {
      progress.tell("reading", fmt::format("{} of {}", lines.size() + 1, std::size(blocks) * std::size(depths)));
      auto speed = reads.run(depth, block, seconds);
      if (speed.has_error()) return speed.error();
      lines.push_back({depth, block, *speed});
    }
  }
  return lines;
}

std::string as_json(const std::vector<Line>& lines, const experts::DriveMeter& reads, double best) {
  std::string out;
  json::Writer writer(out);
  writer.begin_object().key("machine").begin_object().key("drive_gbps").number(best / 1e9).end_object();
  writer.key("direct").boolean(reads.direct());
  writer.key("engine").string(reads.engine());
  writer.key("results").begin_array();
  for (const Line& line : lines) {
    writer.begin_object().key("depth").integer(line.depth);
    writer.key("block_bytes").integer(static_cast<std::int64_t>(line.block));
    writer.key("gbps").number(line.bytes / 1e9).end_object();
  }
  writer.end_array().end_object();
  return out + "\n";
}

void print_table(const std::vector<Line>& lines, const experts::DriveMeter& reads, double best) {
  fmt::print("drive: {:.2f} GB/s at best, with {}{}\n\n", best / 1e9, reads.engine(),
             reads.direct() ? ", past the page cache" : " through the page cache: not the drive's own speed");
  fmt::print("{:>10}{:>7}{:>9}\n", "block MB", "depth", "GB/s");
  for (const Line& line : lines) {
    fmt::print("{:>10.2f}{:>7}{:>9.2f}\n", static_cast<double>(line.block) / 1e6, line.depth, line.bytes / 1e9);
  }
}

int bench_io(const Flags& flags) {
  auto directory = find_model(flags.model);
  if (directory.has_error()) return report(directory.error());
  auto model = checkpoint::Checkpoint::open(*directory, directories(flags.dirs));
  if (model.has_error()) return report(model.error());
  for (const Error& useless : model->left_out()) report("warning: " + useless.describe());
  auto reads = experts::DriveMeter::open(model->files());
  if (reads.has_error()) return report(reads.error());
  auto lines = measure(*reads, flags.seconds);
  if (lines.has_error()) return report(lines.error());
  double best = 0;
  for (const Line& line : *lines) best = std::max(best, line.bytes);
  if (!flags.json) {
    print_table(*lines, *reads, best);
    return exit_ok;
  }
  const auto written = write_out(as_json(*lines, *reads, best));
  return written.has_error() ? report(written.error()) : int{exit_ok};
}

}  // namespace

void add_bench_io(CLI::App& bench, Chosen& chosen) {
  auto flags = std::make_shared<Flags>();
  CLI::App* command = bench.add_subcommand("io", "how fast the drive gives up the model's files");
  add_model(*command, flags->model);
  add_dirs(*command, flags->dirs);
  command->add_option("--seconds", flags->seconds, "how long each block size and depth is measured")
      ->check(CLI::Range(0.05, 60.0))
      ->capture_default_str();
  command->add_flag("--json", flags->json, "one object instead of a table");
  command->footer("Example:\n  k3 bench io /models/kimi-k3");
  command->callback([flags, &chosen] { chosen = [flags] { return bench_io(*flags); }; });
}

}  // namespace k3::cli
