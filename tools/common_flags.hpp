// Flags that several commands share, each with the environment variable that users of other K3 engines know. A flag wins over its
// variable, which wins over the default.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "model/actor.hpp"
#include "model/memory_plan.hpp"
#include "tools/command.hpp"

namespace k3::cli {

struct EngineFlags {
  std::string model;
  std::string dirs, cache;
  std::string bits = "auto", mla_bits = "auto", head_bits = "auto";
  std::string isa = "auto";
  std::string latent_cache = "float32";
  std::string predict = "on";
  bool exact = false;
  unsigned threads = 0;
  std::size_t chunk = 0;
  std::size_t max_context = 0;
  std::size_t layers = 0;
  float expert_top_p = 1.0F;
  double ram_gb = 0, expert_gb = -1;
  bool mmap = false;
  bool direct = true;
  bool pipe = true;
  unsigned load_threads = 0;
};

// Those that were given.
struct SamplingFlags {
  std::optional<float> temperature, top_p, min_p;
  std::optional<int> top_k;
  std::optional<std::uint64_t> seed;
};

// Decimal digits only, of that range: CLI11's own conversion reads 010 as eight, and clamps what does not fit.
CLI::Validator whole_number(std::uint64_t low, std::uint64_t high);

// A switch is on when named alone; `=0` or `=false` turns it off, and what is neither of these nor 1 or true is refused.
CLI::Validator on_or_off();
CLI::Option* add_switch(CLI::App& command, const std::string& flag, bool& value, const std::string& what);

void add_model(CLI::App& command, std::string& model);
// Where else its shards may lie; directories() takes the list apart.
void add_dirs(CLI::App& command, std::string& dirs);
std::vector<std::filesystem::path> directories(const std::string& dirs);
// How the model is loaded and run; includes MODEL, and refuses by name the flags whose feature is not in this build.
void add_engine_flags(CLI::App& command, EngineFlags& flags);
void add_sampling_flags(CLI::App& command, SamplingFlags& flags);

// MODEL as the user gave it: a directory, or `bundled` for the small model of the repository.
Result<std::filesystem::path> find_model(const std::string& model);
LatentFormat latent_format(const EngineFlags& flags);
Result<ModelOptions> model_options(const EngineFlags& flags);
// What was given wins over `otherwise`.
generation::Sampling sampling(const SamplingFlags& flags, generation::Sampling otherwise = {});

// "1,2,3" → ids; the error names the part that is no id.
Result<std::vector<std::int32_t>> parse_ids(const std::string& list);
// Throws a usage error if a list was given and is none.
void check_ids(const std::string& list);

}  // namespace k3::cli
