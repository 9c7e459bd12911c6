#include "tools/common_flags.hpp"

#include <fmt/format.h>

#include <CLI/Option.hpp>
#include <CLI/Validators.hpp>
#include <algorithm>
#include <charconv>
#include <cmath>

#include "kernels/kernels.hpp"
#include "server/sampling_fields.hpp"
#include "tools/cache_flag.hpp"

namespace k3::cli {
namespace {

constexpr const char* engine_group = "Engine";
constexpr const char* sampling_group = "Sampling";

// Empty: good. CLI11 puts the flag's name before what is returned.
CLI::Validator check_bits() {
  return {[](std::string& value) -> std::string {
            for (const char* known : {"auto", "4", "8", "16"}) {
              if (value == known) return {};
            }
            if (value == "32")
              return "'32' is not in this build: weights are stored in 16 bits, which 32 would not make more exact";
            return "'" + value + "' is not one of auto, 4, 8, 16";
          },
          "{auto,4,8,16}"};
}

CLI::Validator check_isa() {
  return {[](std::string& value) -> std::string {
            if (kernels::select(value) != nullptr) return {};
            if (kernels::find(value) != nullptr) return "'" + value + "' needs instructions that this machine lacks";
            std::string known = "auto";
            for (const kernels::Table* table : kernels::tables()) known += std::string(", ") + table->name;
            return "'" + value + "' is not one of " + known;
          },
          "NAME"};
}

CLI::Validator check_above_zero_to_one() {
  return {[](std::string& value) -> std::string {
            float number = 0;
            const auto [end, status] = std::from_chars(value.data(), value.data() + value.size(), number);
            if (status == std::errc{} && end == value.data() + value.size() && number > 0 && number <= 1) return {};
            return "'" + value + "' is not above 0 and at most 1";
          },
          "(0,1]"};
}

CLI::Validator check_finite(double low, double high, const char* name) {
  return {[low, high](std::string& value) -> std::string {
            double number = 0;
            const auto [end, status] = std::from_chars(value.data(), value.data() + value.size(), number);
            // NaN compares false with everything, so it is refused too.
            if (status == std::errc{} && end == value.data() + value.size() && number >= low && number <= high) return {};
            return fmt::format("'{}' is not a number from {} to {}", value, low, high);
          },
          name};
}

CLI::Validator check_dirs() {
  return {[](std::string& value) -> std::string {
            const bool gap = value.empty() || value.front() == ',' || value.back() == ',' || value.find(",,") != std::string::npos;
            return gap ? "'" + value + "' has an empty part where a directory should be" : "";
          },
          "DIR[,DIR...]"};
}

// A flag that the engine will have: naming it must not look as if it worked.
void refuse(CLI::App& command, const std::string& flag, const std::string& variable, const std::string& feature) {
  const std::string known_as = variable.empty() ? flag : flag + " (" + variable + ")";
  CLI::callback_t stop = [known_as, feature](const CLI::results_t&) -> bool {
    throw usage_error(known_as + " is not in this build: " + feature);
  };
  // An empty group keeps it out of the help.
  CLI::Option* option = command.add_option(flag, stop)->expected(0, 1)->group("");
  if (!variable.empty()) option->envname(variable);
}

void refuse_what_is_not_built(CLI::App& command) {
  refuse(command, "--vulkan", "K3_VK", "it computes on the CPU");
  refuse(command, "--vulkan-gb", "K3_VK_GB", "it computes on the CPU");
  refuse(command, "--vulkan-uploads", "K3_VK_UP", "it computes on the CPU");
}

// How experts come into memory.
void add_reading_flags(CLI::App& command, EngineFlags& flags) {
  command
      .add_option("--ram-gb", flags.ram_gb,
                  "memory for all of it, in GB; what does not fit is read when needed. default: what the machine has")
      ->check(check_finite(0.01, 1e6, "GB"))
      ->envname("K3_RAM_GB")
      ->group(engine_group);
  command.add_option("--expert-gb", flags.expert_gb, "of that for experts; default: what the trunk leaves")
      ->check(check_finite(0, 1e6, "GB"))
      ->envname("K3_EXPERT_GB")
      ->group(engine_group);
  add_switch(
      command, "--mmap", flags.mmap,
      "map the weights that are not experts instead of reading them: as stored, such as a container of `k3 repack`. The files "
      "must stay as they are meanwhile")
      ->envname("K3_MMAP")
      ->group(engine_group);
  command.add_option("--direct", flags.direct, "read experts past the page cache (O_DIRECT)")
      ->check(on_or_off())
      ->envname("K3_DIRECT")
      ->capture_default_str()
      ->group(engine_group);
  command.add_option("--pipe", flags.pipe, "read ahead while computing; 0: one expert after the other")
      ->check(on_or_off())
      ->envname("K3_PIPE")
      ->capture_default_str()
      ->group(engine_group);
  command
      .add_option(
          "--predict", flags.predict,
          "read the experts that the next layer will probably want while the drive is idle; meter: only count how often that "
          "would be right")
      ->check(CLI::IsMember({"on", "off", "meter"}))
      ->envname("K3_PREDICT")
      ->capture_default_str()
      ->group(engine_group);
  command.add_option("--load-threads", flags.load_threads, "reading threads, where the kernel refuses io_uring")
      ->check(whole_number(1, 64))
      ->envname("K3_LOAD_THREADS")
      ->group(engine_group);
}

}  // namespace

CLI::Validator whole_number(std::uint64_t low, std::uint64_t high) {
  const std::string range = std::to_string(low) + " to " + std::to_string(high);
  return {[low, high, range](std::string& value) -> std::string {
            std::uint64_t number = 0;
            const auto [end, status] = std::from_chars(value.data(), value.data() + value.size(), number);
            const bool decimal =
                status == std::errc{} && end == value.data() + value.size() && (value.size() == 1 || value[0] != '0');
            if (decimal && number >= low && number <= high) return {};
            return "'" + value + "' is not a whole number from " + range;
          },
          "[" + range + "]"};
}

CLI::Validator on_or_off() {
  return {[](std::string& value) -> std::string {
            if (value == "1") value = "true";
            if (value == "0") value = "false";
            return value == "true" || value == "false" ? "" : "'" + value + "' is neither 1 (true) nor 0 (false)";
          },
          "{0,1}"};
}

CLI::Option* add_switch(CLI::App& command, const std::string& flag, bool& value, const std::string& what) {
  return command.add_flag(flag, value, what)->check(on_or_off());
}

CLI::Error usage_error(const std::string& message) { return {"UsageError", message, exit_usage}; }

namespace {

// In how many bits numbers are kept and multiplied.
void add_precision_flags(CLI::App& command, EngineFlags& flags) {
  command
      .add_option(
          "--bits", flags.bits,
          "of the weights that are not experts; auto: as stored in a prepared container, else 16 if that fits into memory, else 8")
      ->check(check_bits())
      ->envname("K3_BITS")
      ->capture_default_str()
      ->group(engine_group);
  command.add_option("--mla-bits", flags.mla_bits, "the same of latent attention; auto: those of --bits, at least 8")
      ->check(check_bits())
      ->envname("K3_MLA_BITS")
      ->capture_default_str()
      ->group(engine_group);
  command.add_option("--head-bits", flags.head_bits, "the same of the output head; auto: those of --bits, at least 8")
      ->check(check_bits())
      ->envname("K3_HEAD_BITS")
      ->capture_default_str()
      ->group(engine_group);
  command
      .add_option("--latent-cache", flags.latent_cache,
                  "how latent attention remembers tokens: float32, or bf16 in half the memory")
      ->check(CLI::IsMember({"float32", "bf16"}))
      ->envname("K3_LATENT_CACHE")
      ->capture_default_str()
      ->group(engine_group);
  const CLI::Option* exact =
      add_switch(command, "--exact", flags.exact, "products of float32 activations (K3_IDOT=0): slower, to compare with")
          ->group(engine_group);
  CLI::callback_t idot = [&flags, exact](const CLI::results_t& values) -> bool {
    if (values.back() != "0" && values.back() != "1") throw usage_error("K3_IDOT=" + values.back() + " is neither 0 nor 1");
    if (exact->count() == 0) flags.exact = values.back() == "0";  // a flag wins over the environment
    return true;
  };
  command.add_option("--idot", idot)->envname("K3_IDOT")->group("");
}

}  // namespace

void add_model(CLI::App& command, std::string& model) {
  command.add_option("MODEL", model, "the model's directory, or `bundled` for the small one that comes with k3")->required();
}

void add_dirs(CLI::App& command, std::string& dirs) {
  command
      .add_option(
          "--dirs", dirs,
          "more directories, on other drives, with shards of the model: instead of in MODEL or as copies, between which reads "
          "are spread")
      ->check(check_dirs())
      ->envname("K3_DIRS")
      ->group(engine_group);
}

std::vector<std::filesystem::path> directories(const std::string& dirs) {
  std::vector<std::filesystem::path> out;
  for (std::size_t begin = 0; begin < dirs.size();) {
    const std::size_t end = std::min(dirs.find(',', begin), dirs.size());
    out.emplace_back(dirs.substr(begin, end - begin));
    begin = end + 1;
  }
  return out;
}

void add_engine_flags(CLI::App& command, EngineFlags& flags) {
  add_model(command, flags.model);
  add_dirs(command, flags.dirs);
  add_cache_flag(command, flags.cache);
  command.add_option("--threads", flags.threads, "threads for computing; default: every core the process may use")
      ->check(whole_number(1, 1024))
      ->group(engine_group);
  command
      .add_option("--expert-top-p", flags.expert_top_p,
                  "use the fewest experts whose weights reach this share; 1: all that were chosen")
      ->check(check_above_zero_to_one())
      ->envname("K3_TOPP")
      ->group(engine_group);
  command.add_option("--chunk", flags.chunk, "prompt tokens per step, at most; default: what memory allows, up to 4096")
      ->check(whole_number(1, most_chunk))
      ->envname("K3_CHUNK")
      ->group(engine_group);
  command.add_option("--max-context", flags.max_context, "tokens a conversation may have; default: the model's own limit")
      ->check(whole_number(1, 1U << 20))
      ->envname("K3_MAXT")
      ->group(engine_group);
  command.add_option("--layers", flags.layers, "run only the first layers, to look at a model's beginning")
      ->check(whole_number(1, 1024))
      ->envname("K3_LAYERS")
      ->group(engine_group);
  add_precision_flags(command, flags);
  command.add_option("--isa", flags.isa, "instruction set of the kernels, to compare them; the answer is the same with each")
      ->check(check_isa())
      ->envname("K3_ISA")
      ->capture_default_str()
      ->group(engine_group);
  add_reading_flags(command, flags);
  refuse_what_is_not_built(command);
}

void add_sampling_flags(CLI::App& command, SamplingFlags& flags) {
  command.add_option("--temperature", flags.temperature, "0: always the likeliest token")
      ->check(check_finite(0, server::kHottest, "[0,2]"))
      ->envname("COLI_TEMP")
      ->default_str("1")
      ->group(sampling_group);
  command.add_option("--top-p", flags.top_p, "draw from the fewest tokens that reach this probability")
      ->check(check_above_zero_to_one())
      ->default_str("1")
      ->group(sampling_group);
  command.add_option("--top-k", flags.top_k, "draw from the K likeliest tokens; 0: from all")
      ->check(whole_number(0, 1U << 20))
      ->default_str("0")
      ->group(sampling_group);
  command.add_option("--min-p", flags.min_p, "draw only from tokens at least this likely, relative to the likeliest")
      ->check(check_finite(0, 0.999999, "[0,1)"))
      ->default_str("0")
      ->group(sampling_group);
  command.add_option("--seed", flags.seed, "the same seed gives the same answer")
      ->check(whole_number(0, UINT64_MAX))
      ->default_str("0")
      ->group(sampling_group);
}

Result<std::filesystem::path> find_model(const std::string& model) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  if (model != "bundled") {
    if (fs::is_directory(model, ignored)) return fs::path(model);
    Error error = fail(ErrorCode::not_found, "MODEL is no directory: " + model);
    error.expected = "a directory with config.json, tiktoken.model and the shards, or the word `bundled`";
    return error;
  }
  // Beside the program when it was built in the tree or installed, else where it was built from.
  const fs::path program = fs::read_symlink("/proc/self/exe", ignored);
  const fs::path bin = program.parent_path();
  for (const fs::path& candidate :
       {bin / "../../tools/mini/model", bin / "../share/k3/model", fs::path(K3_SOURCE_DIR) / "tools/mini/model"}) {
    if (fs::is_regular_file(candidate / "config.json", ignored)) return candidate.lexically_normal();
  }
  return fail(ErrorCode::not_found,
              "the bundled model is not here: expected tools/mini/model in the source tree of " + program.string());
}

LatentFormat latent_format(const EngineFlags& flags) {
  return flags.latent_cache == "bf16" ? LatentFormat::bf16 : LatentFormat::float32;
}

Result<ModelOptions> model_options(const EngineFlags& flags) {
  auto directory = find_model(flags.model);
  if (directory.has_error()) return directory.error();
  ModelOptions options;
  options.directory = std::move(directory).value();
  options.shard_directories = directories(flags.dirs);
  auto cache = cache_root(flags.cache, options.directory);
  if (cache.has_error()) return cache.error();
  options.trunk_cache = std::move(*cache);
  if (flags.model == "bundled") options.id = "k3-mini";
  options.threads = flags.threads;
  options.isa = flags.isa == "auto" ? "" : flags.isa;
  options.max_context = flags.max_context;
  options.chunk = flags.chunk;
  options.layers = flags.layers;
  options.expert_top_p = flags.expert_top_p;
  options.ram_gb = flags.ram_gb;
  options.expert_gb = flags.expert_gb;
  const auto bits = [](const std::string& value) { return value == "auto" ? 0U : static_cast<unsigned>(std::stoul(value)); };
  options.bits = {bits(flags.bits), bits(flags.mla_bits), bits(flags.head_bits)};
  options.exact = flags.exact;
  options.latents = latent_format(flags);
  options.mmap = flags.mmap;
  options.direct = flags.direct;
  options.load_threads = flags.load_threads;
  options.pipe = flags.pipe;
  options.predict = flags.predict == "on"    ? PredictionMode::on
                    : flags.predict == "off" ? PredictionMode::off
                                             : PredictionMode::metered;
  return options;
}

generation::Sampling sampling(const SamplingFlags& flags, generation::Sampling otherwise) {
  generation::Sampling out = std::move(otherwise);
  out.temperature = flags.temperature.value_or(out.temperature);
  out.top_p = flags.top_p.value_or(out.top_p);
  out.top_k = flags.top_k.value_or(out.top_k);
  out.min_p = flags.min_p.value_or(out.min_p);
  out.seed = flags.seed.value_or(out.seed);
  return out;
}

void check_ids(const std::string& list) {
  if (list.empty()) return;
  if (auto ids = parse_ids(list); ids.has_error()) throw usage_error(ids.error().message);
}

Result<std::vector<std::int32_t>> parse_ids(const std::string& list) {
  std::vector<std::int32_t> ids;
  std::size_t begin = 0;
  while (begin <= list.size()) {
    const std::size_t end = std::min(list.find(',', begin), list.size());
    const char* first = list.data() + begin;
    const char* last = list.data() + end;
    std::int32_t id = 0;
    const auto [stopped, status] = std::from_chars(first, last, id);
    if (status != std::errc{} || stopped != last || id < 0) {
      return fail(ErrorCode::invalid_argument,
                  "--ids: '" + std::string(first, last) + "' is no token id (a list looks like 12,7,1541)");
    }
    ids.push_back(id);
    begin = end + 1;
  }
  return ids;
}

}  // namespace k3::cli
