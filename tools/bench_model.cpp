// `k3 bench prefill` and `k3 bench decode`: the model as it is, against the least its bytes and multiplications could take.
#include <fmt/format.h>

#include <CLI/Option.hpp>
#include <CLI/Validators.hpp>
#include <algorithm>
#include <memory>
#include <optional>

#include "model/machine_memory.hpp"
#include "tools/bench.hpp"
#include "tools/bench_forward.hpp"
#include "tools/bench_machine.hpp"
#include "tools/common_flags.hpp"
#include "tools/input_output.hpp"
#include "tools/route_trace.hpp"
#include "tools/session.hpp"

namespace k3::cli {
namespace {

constexpr std::size_t most_memory = std::size_t{2} << 30;  // for measuring the memory's speed

struct Flags {
  EngineFlags engine;
  bool decode = false;
  std::size_t tokens = 0, prompt = 16;
  std::string routes;
  bool json = false;
};

// What is told of a run; what could not be measured is absent.
struct Told {
  std::size_t tokens = 0;
  ForwardTimes times;
  double bytes_per_token = 0;                                // from the drive
  double serial = 0, compute = 0, waiting = 0, reading = 0;  // seconds; reading: at least one read was in flight
  double needed_bytes = 0;                                   // of experts that were not in memory
  double wasted_bytes = 0;                                   // of experts read on a guess that nobody asked for
  std::optional<double> foreseen, repeated;                  // shares of the chosen: predicted, and chosen in the step before
  std::optional<double> hit_rate;
  const char* bound = "";
  double bound_per_token = 0;                  // bytes through memory, or operations
  std::optional<double> bound_seconds, ratio;  // absent where the bound says nothing of this run
  std::optional<double> plain_drive, drive;    // bytes a second: of `k3 bench io`, and while experts were read
};

double in_seconds(std::chrono::nanoseconds time) { return std::chrono::duration<double>(time).count(); }

// Where experts come from the drive the bound is, of each layer, what must come before they are known, and then the longer of
// reading them and of what can be computed meanwhile.
void judge_layers(const LoadedModel& model, const ForwardTimes& times, Told& told) {
  const auto expert_bytes = static_cast<double>(model.checkpoint.expert_bytes());
  if (!times.drive.plain.empty()) told.plain_drive = median(times.drive.plain);
  if (!times.drive.tokens.empty()) told.drive = median(times.drive.tokens);
  double bound = 0;
  for (const layers::LayerTimes& layer : times.layers) {
    const double serial = in_seconds(layer.serial), overlapped = in_seconds(layer.overlapped);
    const double bytes = static_cast<double>(layer.experts_read) * expert_bytes;
    told.serial += serial;
    told.compute += serial + overlapped;
    told.waiting += in_seconds(layer.waiting);
    told.needed_bytes += bytes;
    if (told.plain_drive) bound += serial + std::max(bytes / *told.plain_drive, overlapped);
  }
  // Blocks of the trunk are read all the time: of the whole then, not layer by layer.
  const auto trunk_bytes = static_cast<double>(times.trunk.bytes);
  told.bytes_per_token += trunk_bytes / static_cast<double>(told.tokens);
  if (trunk_bytes > 0 && told.plain_drive) {
    bound = std::max((told.needed_bytes + trunk_bytes) / *told.plain_drive, told.compute);
  }
  told.reading = in_seconds(times.experts.reading);
  if (!told.plain_drive) return;
  told.bound = "drive";
  told.bound_seconds = bound;
  told.ratio = bound / times.seconds;
}

// A token passes the trunk and its experts through memory, if they are there; a prompt's tokens share those bytes, and its bound is
// the multiplications.
Told judge(const Flags& flags, const LoadedModel& model, ForwardTimes times, const MachineLimits& limits) {
  const TokenCost cost = cost_of_a_token(model);
  const auto tokens = static_cast<double>(flags.tokens);
  const auto acquired = static_cast<double>(times.experts.hits + times.experts.misses);
  Told told;
  told.tokens = flags.tokens;
  told.bytes_per_token = static_cast<double>(times.experts.bytes) / tokens;
  if (acquired > 0) told.hit_rate = static_cast<double>(times.experts.hits) / acquired;
  const auto wasted = static_cast<double>(times.experts.guesses - std::min(times.experts.guesses_used, times.experts.guesses));
  told.wasted_bytes = wasted * static_cast<double>(model.checkpoint.expert_bytes());
  if (const auto chosen = static_cast<double>(times.predicted.chosen); chosen > 0) {
    told.foreseen = static_cast<double>(times.predicted.foreseen) / chosen;
    told.repeated = static_cast<double>(times.predicted.repeated) / chosen;
  }
  if (flags.decode) {
    const double experts = acquired * static_cast<double>(model.checkpoint.expert_bytes()) / tokens;
    told.bound = "ram";
    told.bound_per_token = cost.trunk_bytes + experts;
    if (times.experts.misses == 0) told.ratio = told.bound_per_token * tokens / limits.ram_bytes / times.seconds;
  } else {
    told.bound = "compute";
    told.bound_per_token = 2 * (cost.trunk_weights + cost.expert_weights);
    if (model.expert_top_p >= 1) told.ratio = told.bound_per_token * tokens / limits.bf16_operations / times.seconds;
  }
  judge_layers(model, times, told);
  told.times = std::move(times);
  return told;
}

void write_times(json::Writer& writer, const Told& told) {
  writer.key("read_s").number(told.reading);
  writer.key("compute_s").number(told.compute);
  writer.key("wait_s").number(told.waiting);
  writer.key("serial_s").number(told.serial);
  writer.key("needed_bytes").number(told.needed_bytes);
  writer.key("wasted_bytes").number(told.wasted_bytes);
  if (told.foreseen) writer.key("prefetch_recall").number(*told.foreseen);
  if (told.repeated) writer.key("repeated_share").number(*told.repeated);
  if (told.bound_seconds) writer.key("bound_s").number(*told.bound_seconds);
  if (told.drive) writer.key("drive_gbps").number(*told.drive / 1e9);
}

std::string as_json(const Flags& flags, const Told& told, const MachineLimits& limits, const std::string& isa, unsigned threads) {
  std::string out;
  json::Writer writer(out);
  writer.begin_object().key("machine").begin_object();
  write_limits(writer, limits, isa, threads);
  if (told.plain_drive) writer.key("drive_gbps").number(*told.plain_drive / 1e9);
  writer.end_object().key("results").begin_array().begin_object();
  writer.key("name").string(flags.decode ? "decode" : "prefill");
  writer.key("tokens").integer(static_cast<std::int64_t>(told.tokens));
  writer.key("tokens_per_s").number(static_cast<double>(told.tokens) / told.times.seconds);
  writer.key("wall_s").number(told.times.seconds);
  writer.key("bytes_per_token").number(told.bytes_per_token);
  if (told.hit_rate) writer.key("expert_hit_rate").number(*told.hit_rate);
  writer.key("bound").string(told.bound);
  writer.key(flags.decode ? "ram_bytes_per_token" : "operations_per_token").number(told.bound_per_token);
  write_times(writer, told);
  if (told.ratio) writer.key("ratio").number(*told.ratio);
  writer.key("peak_rss_bytes").integer(static_cast<std::int64_t>(told.times.peak_rss));
  writer.key("all_experts_resident").boolean(told.times.all_resident);
  if (flags.decode) {
    writer.key("ids");
    write_ids(writer, told.times.ids);
  }
  writer.end_object().end_array().end_object();
  return out + "\n";
}

void print(const Flags& flags, const Told& told) {
  const double seconds = told.times.seconds;
  fmt::print("{}: {} tokens in {:.3f} s, {:.2f} tokens/s\n", flags.decode ? "decode" : "prefill", told.tokens, seconds,
             static_cast<double>(told.tokens) / seconds);
  fmt::print("  from drive     {:.6f} GB a token\n", told.bytes_per_token / 1e9);
  if (told.hit_rate) fmt::print("  experts        {:.1f} % found in memory\n", 100 * *told.hit_rate);
  if (flags.decode) {
    fmt::print("  through memory {:.6f} GB a token\n", told.bound_per_token / 1e9);
  } else {
    fmt::print("  multiplying    {:.6f} GFLOP a token\n", told.bound_per_token / 1e9);
  }
  fmt::print("  computing      {:.3f} s, of that {:.3f} before experts are known; waiting for them {:.3f} s\n", told.compute,
             told.serial, told.waiting);
  if (told.drive) {
    fmt::print("  drive          {:.2f} GB/s for experts, busy {:.3f} s; {:.2f} GB/s for plain reads in turn with it\n",
               *told.drive / 1e9, told.reading, *told.plain_drive / 1e9);
  }
  if (told.foreseen) {
    fmt::print(
        "  prediction     {:.1f} % of the chosen experts foreseen (the token before chose {:.1f} %), {:.3f} GB read in vain\n",
        100 * *told.foreseen, 100 * *told.repeated, told.wasted_bytes / 1e9);
  }
  if (told.ratio) {
    fmt::print("  ratio          {:.3f} of what {} allows\n", *told.ratio,
               told.bound_seconds ? "drive and computing side by side"
               : flags.decode     ? "the memory's speed"
                                  : "the bf16 peak");
  } else {
    fmt::print("  ratio          none: {}\n",
               flags.decode ? "some experts came from the drive" : "not all chosen experts were used");
  }
  fmt::print("  memory         {:.3f} GB at most\n", static_cast<double>(told.times.peak_rss) / 1e9);
}

// The machine's limits, measured before the model is loaded, and memory's again in turn with the tokens.
class LimitsMeter {
 public:
  static Result<LimitsMeter> make(const Flags& flags) {
    const std::uint64_t available = available_memory();
    const std::size_t bytes = available == 0 ? most_memory : std::min<std::uint64_t>(most_memory, available / 4);
    auto memory = BenchMemory::make(std::max<std::size_t>(bytes, bench_block));
    if (memory.has_error()) return memory.error();
    LimitsMeter meter;
    meter.memory_ = std::move(*memory);
    ComputePool pool(flags.engine.threads);  // gone before the model comes with its own
    fill(pool, meter.memory_, Fill::ones);
    for (int pass = 0; pass < 2; ++pass) {
      meter.measure_ram(pool);
      measure_peaks(pool, meter.limits_);
    }
    return meter;
  }
  void measure_ram(ComputePool& pool) {
    for (std::size_t loop = 0; loop < count_ram_loops(); ++loop) cli::measure_ram(pool, memory_, loop, limits_);
  }
  const MachineLimits& limits() const { return limits_; }
  std::size_t bytes() const { return memory_.bytes(); }

 private:
  BenchMemory memory_;
  MachineLimits limits_;
};

int bench_model(const Flags& flags) {
  auto options = model_options(flags.engine);
  if (options.has_error()) return report(options.error());
  std::optional<Routes> routes;  // before what takes minutes
  if (!flags.routes.empty()) {
    auto read = read_routes(flags.routes);
    if (read.has_error()) return report(read.error());
    routes = std::move(*read);
  }
  BenchProgress progress;
  auto limits = LimitsMeter::make(flags);
  if (limits.has_error()) return report(limits.error());
  show_load_progress(*options);
  auto model = load_model(*options);
  if (model.has_error()) return report(model.error());
  ForwardPlan plan;
  plan.routes = routes ? &*routes : nullptr;
  const auto measure_memory = [&](ComputePool& pool) { limits->measure_ram(pool); };
  plan.after_turn = measure_memory;
  plan.prompt = flags.decode ? flags.prompt : flags.tokens;
  plan.decode = flags.decode ? flags.tokens : 0;
  auto times = time_forward(**model, plan, progress);
  if (times.has_error()) return report(times.error());
  times->peak_rss -= std::min<std::uint64_t>(times->peak_rss, limits->bytes());  // which no model needs
  const Told told = judge(flags, **model, std::move(times).value(), limits->limits());
  const std::string isa = (*model)->kernels->name;
  const unsigned threads = (*model)->pool->threads();
  if (flags.json) {
    const auto written = write_out(as_json(flags, told, limits->limits(), isa, threads));
    return written.has_error() ? report(written.error()) : int{exit_ok};
  }
  print_limits(limits->limits(), isa, threads);
  print(flags, told);
  return exit_ok;
}

void add_one(CLI::App& bench, Chosen& chosen, bool decode) {
  auto flags = std::make_shared<Flags>();
  flags->decode = decode;
  flags->tokens = decode ? 32 : 512;
  CLI::App* command = decode ? bench.add_subcommand("decode", "tokens one by one, against the memory's speed")
                             : bench.add_subcommand("prefill", "a prompt, against the best multiply-add unit");
  add_engine_flags(*command, flags->engine);
  command->add_option("--tokens", flags->tokens, "how many tokens are measured")
      ->check(whole_number(1, 1U << 20))
      ->capture_default_str();
  if (decode) {
    command->add_option("--prompt-tokens", flags->prompt, "tokens that go before them")
        ->check(whole_number(1, 1U << 20))
        ->capture_default_str();
    command->add_option("--route-trace", flags->routes,
                        "impose recorded expert choices (`k3 logits --routes`), so that they repeat as they do in life");
  }
  command->add_flag("--json", flags->json, "one object instead of lines");
  command->footer(std::string("The ids are made up: what they say does not matter to the time.\nExample:\n  k3 bench ") +
                  (decode ? "decode bundled --tokens 32" : "prefill bundled --tokens 512"));
  command->callback([flags, &chosen] { chosen = [flags] { return bench_model(*flags); }; });
}

}  // namespace

void add_bench_model(CLI::App& bench, Chosen& chosen) {
  add_one(bench, chosen, false);
  add_one(bench, chosen, true);
}

}  // namespace k3::cli
