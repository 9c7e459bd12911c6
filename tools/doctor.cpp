// `k3 doctor`: what this machine has, what a model needs, and what that makes of a token.
#include <fmt/format.h>

#include <CLI/Option.hpp>
#include <CLI/Validators.hpp>
#include <algorithm>
#include <memory>
#include <optional>
#include <thread>

#include "kernels/kernels.hpp"
#include "model/checkpoint/copies.hpp"
#include "model/compute_pool.hpp"
#include "model/experts/drive_meter.hpp"
#include "model/loaded_model.hpp"
#include "model/machine_memory.hpp"
#include "tools/bench_machine.hpp"
#include "tools/command.hpp"
#include "tools/common_flags.hpp"

namespace k3::cli {
namespace {

struct Flags {
  EngineFlags engine;
  double seconds = 2;
};

double gigabytes(std::uint64_t bytes) { return static_cast<double>(bytes) / 1e9; }

struct Sizes {
  std::uint64_t shards = 0;   // all files
  std::uint64_t trunk = 0;    // what stays in memory
  std::uint64_t experts = 0;  // all of them
  std::uint64_t per_token = 0;
};

Sizes sizes_of(const checkpoint::Checkpoint& model) {
  const checkpoint::Config& config = model.config();
  const std::uint64_t moe_layers = config.layers - config.dense_layers;
  Sizes sizes;
  for (const checkpoint::File& file : model.files()) sizes.shards += file.bytes;
  sizes.experts = moe_layers * config.experts * model.expert_bytes();
  sizes.trunk = sizes.shards - std::min(sizes.shards, sizes.experts);
  sizes.per_token = moe_layers * config.experts_per_token * model.expert_bytes();
  return sizes;
}

void print_machine(std::uint64_t available) {
  std::string tiers;
  for (const kernels::Table* table : kernels::tables()) {
    if (kernels::supported(*table)) tiers += fmt::format("{}{}", tiers.empty() ? "" : ", ", table->name);
  }
  const kernels::Table* best = kernels::select("");
  fmt::print("machine\n");
  fmt::print("  kernels        {} (can run: {})\n", best != nullptr ? best->name : "none", tiers);
  fmt::print("  cores          {} usable of {}\n", usable_cores(), std::thread::hardware_concurrency());
  if (available == 0) {
    fmt::print("  memory         cannot be told\n");
  } else {
    fmt::print("  memory         {:.1f} GB may still be taken (the control group's limit counted in)\n", gigabytes(available));
  }
}

// Slots are a little larger than the experts in them, so that all of them may take more than all experts.
double share_in_memory(const MemoryPlan& plan, const Sizes& sizes) {
  return sizes.experts == 0 ? 1 : std::min(1.0, gigabytes(plan.experts) / gigabytes(sizes.experts));
}

void print_plan(const MemoryPlan& plan, const Sizes& sizes) {
  fmt::print("plan of memory\n");
  fmt::print("  trunk          {:.3f} GB stay in memory{}\n", gigabytes(plan.trunk),
             plan.streamed == 0 ? ""
                                : fmt::format(", {:.3f} GB are read for each token (through {:.3f} GB)", gigabytes(plan.streamed),
                                              gigabytes(plan.window)));
  if (plan.residency.mapped) {
    fmt::print("                 mapped: that much room is left in the page cache{}\n",
               plan.paged == 0 ? "" : fmt::format(", {:.3f} GB have none and are read again", gigabytes(plan.paged)));
  }
  fmt::print("  working        {:.3f} GB for {} conversation{} and steps of {} tokens\n", gigabytes(plan.working),
             plan.live_sequences, plan.live_sequences == 1 ? "" : "s", plan.chunk);
  fmt::print("  experts        {:.3f} of {:.3f} GB stay in memory ({:.0f} %)\n",
             share_in_memory(plan, sizes) * gigabytes(sizes.experts), gigabytes(sizes.experts),
             100.0 * share_in_memory(plan, sizes));
}

// A token needs its experts from the drive unless they are in memory already, and the trunk from memory. Which experts a token
// wants is taken as even, so the share in memory is the share found there; in life some come again and more is found. Experts are
// computed on while others are read, the trunk before they are known.
void print_forecast(const Sizes& sizes, const MemoryPlan& plan, double drive, double memory) {
  const double experts = gigabytes(sizes.per_token) * (1 - share_in_memory(plan, sizes)),
               trunk = gigabytes(plan.streamed + plan.paged), from_drive = experts + trunk;
  const double from_memory = gigabytes(sizes.trunk + sizes.per_token);
  fmt::print("a token\n");
  fmt::print(
      "  reads          {:.3f} GB of experts ({:.3f} from the drive), {:.3f} GB of trunk from the drive, {:.3f} GB through "
      "memory\n",
      gigabytes(sizes.per_token), experts, trunk, from_memory);
  if (memory <= 0 || (drive <= 0 && from_drive > 0)) {
    fmt::print("  expected       cannot be told: the {} could not be measured\n", memory <= 0 ? "memory" : "drive");
    return;
  }
  const auto read = [drive](double bytes) { return bytes > 0 ? bytes / drive : 0; };
  const double seconds =
      read(trunk) + gigabytes(sizes.trunk) / memory + std::max(read(experts), gigabytes(sizes.per_token) / memory);
  fmt::print("  expected       {:.3g} s at best, a bound from bytes alone\n", seconds);
}

// Gigabytes a second, 0: not measured.
double print_drive(const checkpoint::Checkpoint& model, const Sizes& sizes, double seconds) {
  fmt::print("drive\n");
  auto reads = experts::DriveMeter::open(model.files());
  const Result<double> speed = reads.has_value() ? reads->run_experts(model.expert_bytes(), seconds) : reads.error();
  if (speed.has_error()) {
    fmt::print("  bandwidth      not measured: {}\n", speed.error().describe());
    return 0;
  }
  fmt::print("  bandwidth      {:.2f} GB/s{}{}\n", *speed / 1e9,
             reads->direct() ? "" : " (through the page cache: not the drive's own)",
             sizes.shards < 250'000'000 ? " (the model is too small for that to mean much)" : "");
  return *speed / 1e9;
}

// Gigabytes a second, 0: there was no memory to measure it in.
double memory_speed(unsigned threads, std::uint64_t available) {
  const std::uint64_t most = std::uint64_t{1} << 30;
  auto memory = BenchMemory::make(std::max<std::uint64_t>(bench_block, available == 0 ? most : std::min(most, available / 4)));
  if (memory.has_error()) return 0;
  ComputePool pool(threads);
  fill(pool, *memory, Fill::ones);
  MachineLimits limits;
  for (std::size_t turn = 0; turn < 2 * count_ram_loops(); ++turn) measure_ram(pool, *memory, turn, limits);
  return limits.ram_bytes / 1e9;
}

int examine(const checkpoint::Checkpoint& model, const Flags& flags, const ModelOptions& options, double memory) {
  const checkpoint::Config& config = model.config();
  Sizes sizes = sizes_of(model);
  const auto precision = choose_precision(options, model);
  if (precision.has_error()) return report(precision.error());
  sizes.trunk = checkpoint::trunk_sizes(model, options.layers, *precision).all();
  fmt::print("model            {}\n", model.directory().string());
  fmt::print("  layers         {} ({} with experts), {} experts, {} a token\n", config.layers, config.layers - config.dense_layers,
             config.experts, config.experts_per_token);
  const std::vector<checkpoint::File> copies = checkpoint::one_by_one(model.files());
  fmt::print("  files          {} shards, {:.3f} GB{}\n", model.files().size(), gigabytes(sizes.shards),
             copies.size() == model.files().size() ? "" : fmt::format(", {} files with all copies", copies.size()));
  const auto planned = plan_memory_of(options, model, *precision);
  if (planned.has_error()) return report(planned.error());
  const MemoryPlan& plan = *planned;
  print_plan(plan, sizes);

  print_forecast(sizes, plan, print_drive(model, sizes, flags.seconds), memory);
  return exit_ok;
}

int doctor(const Flags& flags) {
  // First of all: measuring takes seconds, and a wrong path is told at once.
  std::optional<checkpoint::Checkpoint> model;
  ModelOptions options;
  if (!flags.engine.model.empty()) {
    auto chosen = model_options(flags.engine);
    if (chosen.has_error()) return report(chosen.error());
    options = std::move(chosen).value();
    auto opened = checkpoint::Checkpoint::open(options.directory, options.shard_directories);
    if (opened.has_error()) return report(opened.error());
    for (const Error& useless : opened->left_out()) report("warning: " + useless.describe());
    if (auto fits = check_against(options, opened->config()); fits.has_error()) return report(fits.error());
    model.emplace(std::move(opened).value());
  }
  const std::uint64_t available = available_memory();
  print_machine(available);
  const double memory = memory_speed(flags.engine.threads == 0 ? usable_cores() : flags.engine.threads, available);
  fmt::print("  memory speed   {:.1f} GB/s\n", memory);
  if (!model) return exit_ok;
  return examine(*model, flags, options, memory);
}

}  // namespace

void add_doctor(CLI::App& app, Chosen& chosen) {
  auto flags = std::make_shared<Flags>();
  CLI::App* command = app.add_subcommand("doctor", "what this machine can do, and what to expect of a model on it");
  add_engine_flags(*command, flags->engine);
  command->get_option("MODEL")->required(false);
  command->add_option("--seconds", flags->seconds, "how long to read from the drive")
      ->check(CLI::Range(0.1, 60.0))
      ->capture_default_str();
  command->footer("Examples:\n  k3 doctor\n  k3 doctor /models/kimi-k3 --seconds 5");
  command->callback([flags, &chosen] { chosen = [flags] { return doctor(*flags); }; });
}

}  // namespace k3::cli
