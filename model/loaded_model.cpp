#include "model/loaded_model.hpp"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <fstream>

#include "model/checkpoint/mapped_trunk.hpp"
#include "model/checkpoint/stored_matrix.hpp"
#include "model/checkpoint/trunk_cache.hpp"
#include "model/machine_memory.hpp"

namespace k3 {

namespace {

// Part of the fingerprint: raised when a change of the arithmetic changes bits, so that stored states of old bits are not reused.
constexpr std::string_view arithmetic_version = "int8 groups 2";

class Fnv1a {
 public:
  void add(std::string_view bytes) {
    for (const char c : bytes) hash_ = (hash_ ^ static_cast<unsigned char>(c)) * 0x100000001b3ULL;
    hash_ = (hash_ ^ 0xffU) * 0x100000001b3ULL;  // an end mark, so that parts cannot run into each other
  }
  void add_file(const std::filesystem::path& path) {
    std::ifstream in(path, std::ios::binary);
    std::string bytes((std::istreambuf_iterator<char>(in)), {});
    add(bytes);
  }
  std::string text() const { return fmt::format("k3-{:016x}", hash_); }

 private:
  std::uint64_t hash_ = 0xcbf29ce484222325ULL;
};

std::string fingerprint(const ModelOptions& options, const checkpoint::TrunkPrecision& precision,
                        const checkpoint::Checkpoint& checkpoint) {
  Fnv1a hash;
  hash.add_file(checkpoint.directory() / "config.json");
  hash.add_file(checkpoint.directory() / "model.safetensors.index.json");
  for (const auto& file : checkpoint.files()) hash.add(fmt::format("{} {}", file.path.filename().string(), file.bytes));
  hash.add(arithmetic_version);
  hash.add(fmt::format("precision {} {} {}", static_cast<int>(precision.most), static_cast<int>(precision.mla),
                       static_cast<int>(precision.head)));
  hash.add(fmt::format("exact {} layers {} top_p {} latents {}", options.exact, options.layers, options.expert_top_p,
                       latent_bytes(options.latents)));
  return hash.text();
}

Error bad_option(std::string message, std::string expected, std::string got) {
  Error error = fail(ErrorCode::invalid_argument, std::move(message));
  error.expected = std::move(expected);
  error.got = std::move(got);
  return error;
}

Result<void> check(const ModelOptions& options) {
  if (options.parallel == 0) return bad_option("conversations at once", "at least 1", "0");
  if (options.queue_capacity == 0) return bad_option("queue capacity", "at least 1", "0");
  if (!(options.expert_top_p > 0 && options.expert_top_p <= 1)) {
    return bad_option("expert top-p", "more than 0, at most 1", fmt::format("{}", options.expert_top_p));
  }
  return {};
}

Result<const kernels::Table*> choose_kernels(const std::string& isa) {
  if (const kernels::Table* table = kernels::select(isa)) return table;
  std::string names = "auto";
  for (const kernels::Table* table : kernels::tables()) {
    if (kernels::supported(*table)) names += std::string(", ") + table->name;
  }
  return bad_option("this machine and build have no such instruction-set tier", "one of " + names, isa);
}

checkpoint::Precision precision_of_bits(unsigned bits) {
  return bits == 4 ? checkpoint::Precision::int4 : bits == 8 ? checkpoint::Precision::int8 : checkpoint::Precision::bf16;
}

checkpoint::TrunkPrecision precision_of_bits(unsigned most, const WeightBits& bits) {
  const auto at_least_8 = [most](unsigned chosen) { return precision_of_bits(chosen != 0 ? chosen : std::max(most, 8U)); };
  return {precision_of_bits(most), at_least_8(bits.mla), at_least_8(bits.head)};
}

Result<checkpoint::TrunkPrecision> precision_of_prepared(const ModelOptions& options, const checkpoint::StoredPrecision& stored) {
  const auto pick = [](unsigned asked, checkpoint::Precision own) { return asked == 0 ? own : precision_of_bits(asked); };
  const checkpoint::TrunkPrecision chosen = {pick(options.bits.most, stored.precision.most),
                                             pick(options.bits.mla, stored.precision.mla),
                                             pick(options.bits.head, stored.precision.head)};
  if (options.exact)
    return bad_option("--exact takes weights of 16 bits, and those of this checkpoint are rounded already",
                      "the released checkpoint", "a prepared container");
  auto fits = checkpoint::check_bits(stored, chosen);
  if (fits.has_error()) return fits.error();
  return chosen;
}

// Of a checkpoint as released.
Result<checkpoint::TrunkPrecision> precision_of_released(const ModelOptions& options, const checkpoint::Checkpoint& checkpoint) {
  unsigned most = options.bits.most;
  const bool kept = !options.trunk_cache.empty();
  if (most == 0 && options.mmap && !kept) most = 16;
  if (most == 0) {
    // Rounding is worth it where it saves the trunk from being read again for each token. It has to fit whole, though, unless it is
    // kept: rounded at start, it is nowhere on the drive.
    // How large steps are must not decide it, or it would decide the answer.
    ModelOptions small_steps = options;
    small_steps.chunk = 16;
    const auto as_stored = plan_memory_of(small_steps, checkpoint, precision_of_bits(16, options.bits));
    const bool fits = as_stored.has_value() && as_stored->streamed == 0;
    const auto rounded_fits = [&] {
      return plan_memory_of(small_steps, checkpoint, precision_of_bits(8, options.bits)).has_value();
    };
    most = !options.exact && !fits && (kept || rounded_fits()) ? 8 : 16;
    if (most == 8) spdlog::warn("as stored, the trunk is larger than memory: its weights are rounded to 8 bits");
  }
  const checkpoint::TrunkPrecision chosen = precision_of_bits(most, options.bits);
  if (options.exact && !chosen.exact())
    return bad_option("bits", "16, for exact products take weights as stored", std::to_string(most));
  return chosen;
}

std::string name_of(const ModelOptions& options) {
  if (!options.id.empty()) return options.id;
  std::error_code ignored;
  const auto path = std::filesystem::weakly_canonical(options.directory, ignored);
  const std::string name = path.has_filename() ? path.filename().string() : path.parent_path().filename().string();
  return name.empty() ? "model" : name;
}

// The model with its trunk as the cache keeps it; the model itself where nothing of it is to be rounded.
Result<checkpoint::Checkpoint> with_trunk_cache(const ModelOptions& options, checkpoint::Checkpoint checkpoint) {
  ModelOptions read = options;
  read.mmap = false;  // what is to be mapped is the cache
  const auto precision = choose_precision(read, checkpoint);
  if (precision.has_error()) return precision.error();
  const auto stored = checkpoint::stored_precision(checkpoint);
  if (stored.has_error()) return stored.error();
  if (precision->exact() || (stored->prepared && stored->precision == *precision)) {
    spdlog::info("no weights are rounded at start, so none are kept in {}", options.trunk_cache.string());
    return checkpoint;
  }
  const auto path = checkpoint::trunk_cache_path(options.trunk_cache, options.directory, *precision);
  spdlog::info("rounded weights are kept in {}", path.string());
  auto kept = checkpoint::open_with_cached_trunk(checkpoint, options.shard_directories, *precision, path, options.cache_progress);
  if (kept.has_value()) return kept;
  // A full drive, or a model that has changed since: no reason not to answer.
  spdlog::warn("{}; the weights are rounded anew", kept.error().describe());
  return checkpoint;
}

}  // namespace

ForwardContext LoadedModel::forward_context(experts::ExpertStream& experts) const {
  ForwardContext context;
  context.config = &checkpoint.config();
  context.weights = &weights;
  context.kernels = kernels;
  context.pool = pool.get();
  context.experts = &experts;
  context.checkpoint = &checkpoint;
  context.trunk.window_bytes = plan.window;
  context.trunk.direct = stream.direct;
  context.trunk.load_threads = stream.load_threads;
  context.exact = exact;
  context.expert_top_p = expert_top_p;
  context.predict = predict;
  return context;
}

Result<void> check_against(const ModelOptions& options, const checkpoint::Config& config) {
  // One token in and one out is the least that is of use.
  if (options.max_context != 0 && (options.max_context < 2 || options.max_context > config.max_positions)) {
    return bad_option("maximum context", fmt::format("2 to {}, which the model was made for", config.max_positions),
                      std::to_string(options.max_context));
  }
  if (options.layers > config.layers) {
    return bad_option("layers to run", fmt::format("1 to {}, which the model has", config.layers), std::to_string(options.layers));
  }
  return {};
}

Result<checkpoint::TrunkPrecision> choose_precision(const ModelOptions& options, const checkpoint::Checkpoint& checkpoint) {
  const auto stored = checkpoint::stored_precision(checkpoint);
  if (stored.has_error()) return stored.error();
  auto chosen = stored->prepared ? precision_of_prepared(options, *stored) : precision_of_released(options, checkpoint);
  if (chosen.has_error() || !options.mmap) return chosen;
  auto mappable = checkpoint::check_mappable(checkpoint, options.layers, *chosen);
  if (mappable.has_error()) return mappable.error();
  return chosen;
}

Result<MemoryPlan> plan_memory_of(const ModelOptions& options, const checkpoint::Checkpoint& checkpoint,
                                  const checkpoint::TrunkPrecision& precision) {
  const checkpoint::Config& config = checkpoint.config();
  const std::size_t layers = options.layers == 0 ? config.layers : options.layers;
  MemoryRequest request;
  request.taken = own_memory();
  if (options.ram_gb > 0) {
    request.budget = static_cast<std::uint64_t>(options.ram_gb * 1e9);
  } else if (const std::uint64_t available = available_memory(); available != 0) {
    // One part in sixteen stays free: MemAvailable is an estimate, and other programs live here too.
    request.budget = request.taken + available / 16 * 15;
  }
  request.trunk = checkpoint::trunk_sizes(checkpoint, options.layers, precision);
  request.trunk_slot_bytes = trunk::usual_slot_bytes;
  request.expert_bytes = experts::slot_bytes(checkpoint);
  request.experts = (layers - std::min(layers, config.dense_layers)) * config.experts;
  request.experts_per_token = config.experts_per_token;
  if (options.expert_gb >= 0) request.expert_budget = static_cast<std::uint64_t>(options.expert_gb * 1e9);
  request.context = options.max_context == 0 ? config.max_positions : options.max_context;
  request.chunk = options.chunk;
  request.sequences = std::max(request.sequences, options.parallel);
  request.latents = options.latents;
  request.mapped = options.mmap;
  return plan_memory(config, request);
}

Result<std::unique_ptr<LoadedModel>> load_model(const ModelOptions& options) {
  if (const auto checked = check(options); checked.has_error()) return checked.error();
  const auto kernels = choose_kernels(options.isa);
  if (kernels.has_error()) return kernels.error();
  auto checkpoint = checkpoint::Checkpoint::open(options.directory, options.shard_directories);
  if (checkpoint.has_error()) return checkpoint.error();
  for (const Error& useless : checkpoint->left_out()) spdlog::warn("{}", useless.describe());
  if (!options.trunk_cache.empty()) checkpoint = with_trunk_cache(options, std::move(*checkpoint));
  if (checkpoint.has_error()) return checkpoint.error();
  if (const auto fits = check_against(options, checkpoint->config()); fits.has_error()) return fits.error();
  const std::size_t context = options.max_context == 0 ? checkpoint->config().max_positions : options.max_context;

  const unsigned threads = options.threads == 0 ? usable_cores() : options.threads;
  const auto precision = choose_precision(options, *checkpoint);
  if (precision.has_error()) return precision.error();
  const auto plan = plan_memory_of(options, *checkpoint, *precision);
  if (plan.has_error()) return plan.error();
  spdlog::info("{}", plan->describe());
  // One reader waits for the drive while the other of its core rounds what it has.
  auto weights =
      checkpoint::load_weights(*checkpoint, 2 * threads, options.layers, *precision, options.load_progress, plan->residency);
  if (weights.has_error()) return weights.error();

  auto model = std::make_unique<LoadedModel>();
  model->checkpoint = std::move(*checkpoint);
  model->weights = std::move(*weights);
  model->kernels = *kernels;
  model->pool = std::make_unique<ComputePool>(threads);
  model->chunk = plan->chunk;
  model->parallel = std::min(options.parallel, plan->live_sequences);
  if (model->parallel < options.parallel)
    spdlog::warn("memory has room for {} of {} conversations at once", model->parallel, options.parallel);
  model->exact = options.exact;
  model->latents = options.latents;
  model->expert_top_p = options.expert_top_p;
  model->predict = options.pipe ? options.predict : PredictionMode::off;

  const checkpoint::Config& config = model->checkpoint.config();
  model->plan = *plan;
  model->stream.budget_bytes = plan->experts;
  model->stream.direct = options.direct;
  if (options.load_threads != 0) model->stream.load_threads = options.load_threads;
  if (!options.pipe) {
    model->stream.shape.depth = 1;  // one read at a time, none ahead of its turn
    model->stream.measure_shape = false;
    model->stream.load_threads = 1;
  }
  model->precision = *precision;
  model->info = {name_of(options), context, config.vocabulary, fingerprint(options, *precision, model->checkpoint),
                 model->parallel,
                 model->chunk};
  return model;
}

}  // namespace k3
