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
#include "model/loaded_model.hpp"
#include "model/machine_memory.hpp"
#include "tools/command.hpp"
#include "tools/common_flags.hpp"
#include "tools/drive.hpp"

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
  fmt::print("  experts        {:.3f} of {:.3f} GB stay in memory ({:.0f} %)\n", gigabytes(plan.experts), gigabytes(sizes.experts),
             sizes.experts == 0 ? 100.0 : 100.0 * gigabytes(plan.experts) / gigabytes(sizes.experts));
}

// A token needs its experts from the drive unless they are in memory already, and the trunk from memory. Which experts a token
// wants is taken as even, so the share in memory is the share found there.
void print_forecast(const Sizes& sizes, const MemoryPlan& plan, double drive, double memory) {
  const double found = sizes.experts == 0 ? 1 : gigabytes(plan.experts) / gigabytes(sizes.experts);
  const double experts = gigabytes(sizes.per_token) * (1 - found), trunk = gigabytes(plan.streamed + plan.paged),
               from_drive = experts + trunk;
  const double from_memory = gigabytes(sizes.trunk + sizes.per_token);
  fmt::print("a token\n");
  fmt::print(
      "  reads          {:.3f} GB of experts ({:.3f} from the drive), {:.3f} GB of trunk from the drive, {:.3f} GB through "
      "memory\n",
      gigabytes(sizes.per_token), experts, trunk, from_memory);
  if (drive <= 0 && from_drive > 0) {
    fmt::print("  expected       cannot be told: the drive could not be measured\n");
    return;
  }
  const double seconds = (from_drive > 0 ? from_drive / drive : 0) + from_memory * 1e9 / memory;
  fmt::print("  expected       {:.3g} s at best, a bound from bytes alone\n", seconds);
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

  auto drive = measure_drive(copies, flags.seconds);
  fmt::print("drive\n");
  double speed = 0;
  if (drive.has_error()) {
    fmt::print("  bandwidth      not measured: {}\n", drive.error().describe());
  } else {
    speed = drive->gigabytes_per_second;
    // Below a few blocks the start of the threads is what gets measured.
    const bool little = drive->gigabytes_read < 0.25;
    fmt::print("  bandwidth      {:.2f} GB/s over {:.3f} GB{}{}\n", speed, drive->gigabytes_read,
               drive->direct ? "" : " (through the page cache: not the drive's own)", little ? " (too little to mean much)" : "");
  }
  print_forecast(sizes, plan, speed, memory);
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
  const double memory = measure_memory(flags.engine.threads == 0 ? usable_cores() : flags.engine.threads);
  fmt::print("  memory speed   {:.1f} GB/s\n", memory / 1e9);
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
