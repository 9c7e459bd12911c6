#include "model/checkpoint/synth.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <system_error>
#include <vector>

#include "model/checkpoint/file_io.hpp"
#include "model/checkpoint/header_text.hpp"
#include "model/checkpoint/safetensors.hpp"
#include "model/checkpoint/synth_files.hpp"
#include "model/checkpoint/synth_random.hpp"
#include "model/checkpoint/tensor_list.hpp"
#include "model/text/json.hpp"

namespace k3::checkpoint {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t buffer_bytes = 4U << 20;
// Beyond the released counts by a little: the index is held in memory, about 120 bytes a tensor.
constexpr std::size_t max_layers = 128, max_experts = 1024, min_vocabulary = 512, max_vocabulary = 1U << 20;

struct Shard {
  std::string file;
  std::vector<ExpectedTensor> tensors;  // names with prefix, sorted: experts 0, 1, 10, 100, .. as released
};

class Synthesizer {
 public:
  Synthesizer(const SynthOptions& options, Config config) : options_(options), config_(std::move(config)) {}

  Result<void> run(const std::string& config_text) {
    for (std::size_t i = 0; i <= config_.layers; ++i) total_ += shard_bytes(plan(i));
    auto done = check_space();
    if (done) done = write_text("config.json", config_text);
    if (done) done = write_text("tiktoken.model", synth_tiktoken(config_.vocabulary));
    if (done) done = write_text("tokenizer_config.json", synth_tokenizer_config(config_.vocabulary));
    std::string map;
    for (std::size_t i = 0; done && i <= config_.layers; ++i) {
      const Shard shard = plan(i);
      done = write_shard(shard);
      for (const auto& tensor : shard.tensors)
        map += (map.empty() ? "\n" : ",\n") + json::quoted(tensor.name) + ": " + json::quoted(shard.file);
    }
    // The index last: a directory with one is complete.
    if (done) {
      done = write_text("model.safetensors.index.json",
                        fmt::format("{{\"metadata\": {{\"total_size\": {}}}, \"weight_map\": {{{}\n}}}}\n", total_, map));
    }
    if (!done) remove_written();
    return done;
  }

 private:
  // Shard i holds layer i; the last one the globals.
  Shard plan(std::size_t i) const {
    Shard shard;
    shard.file = fmt::format("model-{:05}-of-{:06}.safetensors", i + 1, config_.layers + 1);
    shard.tensors = i < config_.layers ? expected_layer(config_, i) : expected_globals(config_);
    if (i < config_.layers && !config_.is_dense(i)) {
      for (std::size_t expert = 0; expert < config_.experts; ++expert) {
        for (auto part : expected_expert(config_)) {
          part.name = expert_prefix(i, expert) + part.name;
          shard.tensors.push_back(std::move(part));
        }
      }
    }
    for (auto& tensor : shard.tensors) {
      tensor.name = "language_model." + tensor.name;
      // A_log is released as long as a head is wide.
      if (tensor.padded) tensor.shape[0] = std::max(config_.kda_heads, config_.kda_head_dim);
    }
    std::sort(shard.tensors.begin(), shard.tensors.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
    return shard;
  }

  static std::uint64_t shard_bytes(const Shard& shard) {
    std::uint64_t bytes = 0;
    for (const auto& tensor : shard.tensors) bytes += tensor.bytes();
    return bytes;
  }

  Result<void> check_space() const {
    std::error_code error;
    const auto space = fs::space(options_.directory, error);
    if (error || space.available >= total_) return {};
    return Error{.code = ErrorCode::io,
                 .message = "not enough free space on the drive",
                 .file = options_.directory.string(),
                 .expected = fmt::format("{:.1f} GB", static_cast<double>(total_) / 1e9),
                 .got = fmt::format("{:.1f} GB", static_cast<double>(space.available) / 1e9)};
  }

  Result<FileHandle> create(const std::string& name) {
    auto file = FileHandle::create(options_.directory / name);
    if (file) written_.push_back(options_.directory / name);
    return file;
  }

  Result<void> write_text(const std::string& name, const std::string& text) {
    auto file = create(name);
    if (!file) return file.error();
    auto done = file->write(text.data(), text.size(), written_.back().string());
    return done ? file->close(written_.back().string()) : done;
  }

  Result<void> write_shard(const Shard& shard) {
    auto file = create(shard.file);
    if (!file) return file.error();
    const std::string name = written_.back().string(), text = header_text(shard.tensors, {}, 8);
    auto done = file->write(text.data(), text.size(), name);
    for (const auto& tensor : shard.tensors) {
      if (done) done = write_tensor(tensor, *file, name);
    }
    return done ? file->close(name) : done;
  }

  // A tensor passes through the buffer in parts: the largest, an embedding, has 2.3 GB.
  Result<void> write_tensor(const ExpectedTensor& tensor, const FileHandle& file, const std::string& name) {
    Random random(options_.seed, tensor.name);
    const std::uint64_t bytes = tensor.bytes(), element = dtype_bytes(tensor.dtype);
    for (std::uint64_t at = 0; at < bytes;) {
      const std::uint64_t part = std::min(buffer_bytes, bytes - at);
      buffer_.resize(part);
      sampler_.fill(tensor, config_, random, at / element, buffer_);
      auto done = file.write(buffer_.data(), part, name);
      if (!done) return done;
      at += part;
      done_ += part;
      if (options_.progress && done_ - reported_ >= buffer_bytes) options_.progress(reported_ = done_, total_);
    }
    return {};
  }

  void remove_written() {
    std::error_code ignored;
    for (const auto& path : written_) fs::remove(path, ignored);
  }

  const SynthOptions& options_;
  Config config_;
  Sampler sampler_;
  std::vector<char> buffer_;
  std::vector<fs::path> written_;
  std::uint64_t total_ = 0, done_ = 0, reported_ = 0;
};

Result<void> check_options(const SynthOptions& options, std::size_t vocabulary) {
  const auto check = [](const char* what, std::size_t value, std::size_t least, std::size_t most) -> Result<void> {
    if (value >= least && value <= most) return {};
    return Error{.code = ErrorCode::invalid_argument,
                 .message = std::string("a synthetic checkpoint cannot have this many ") + what,
                 .expected = fmt::format("{} to {}", least, most),
                 .got = std::to_string(value)};
  };
  auto done = check("layers", options.layers, 1, max_layers);
  if (done) done = check("experts", options.experts, 1, max_experts);
  if (done) done = check("vocabulary entries", vocabulary, min_vocabulary, max_vocabulary);
  return done;
}

Result<void> prepare_directory(const fs::path& directory) {
  std::error_code error;
  fs::create_directories(directory, error);
  if (!error && !fs::is_directory(directory, error) && !error) error = std::make_error_code(std::errc::not_a_directory);
  if (error)
    return Error{.code = ErrorCode::io, .message = "cannot make the directory: " + error.message(), .file = directory.string()};
  const bool empty = fs::is_empty(directory, error);
  if (error)
    return Error{.code = ErrorCode::io, .message = "cannot read the directory: " + error.message(), .file = directory.string()};
  if (empty) return {};
  return Error{.code = ErrorCode::invalid_argument,
               .message = "the directory is not empty; nothing is overwritten: choose another or empty it first",
               .file = directory.string()};
}

}  // namespace

Result<void> synthesize(const SynthOptions& options) {
  const std::size_t vocabulary = options.vocabulary != 0 ? options.vocabulary : options.tiny ? 512 : 163840;
  auto done = check_options(options, vocabulary);
  if (done) done = prepare_directory(options.directory);
  if (!done) return done;
  const std::string text = synth_config(options, vocabulary);
  auto config = parse_config(text, "config.json");
  if (!config) return config.error();
  return Synthesizer(options, std::move(*config)).run(text);
}

}  // namespace k3::checkpoint
