#include "model/checkpoint/container_directory.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <system_error>

#include "model/checkpoint/container_file.hpp"
#include "model/checkpoint/durable_file.hpp"
#include "model/text/json.hpp"

namespace k3::checkpoint {
namespace {

namespace fs = std::filesystem;

constexpr const char* mark = "k3_container.json";
constexpr std::uint64_t most_small_bytes = 64U << 20;

Error at(const fs::path& path, std::string message, ErrorCode code = ErrorCode::invalid_argument) {
  return Error{.code = code, .message = std::move(message), .file = path.string()};
}

std::string mark_text(const ContainerPlan& plan) {
  const TrunkPrecision& precision = plan.precision();
  return fmt::format("{{\"format\": 1, \"shards\": {}, \"bits\": {}, \"mla_bits\": {}, \"head_bits\": {}{}}}\n", plan.shards(),
                     bits(precision.most), bits(precision.mla), bits(precision.head),
                     plan.contents() == Contents::trunk ? ", \"trunk_only\": true" : "");
}

Result<void> check_holding(const fs::path& destination, const ContainerPlan& plan) {
  const auto found = read_text_file(destination / mark, most_small_bytes, 0);
  if (!found && found.error().code != ErrorCode::not_found) return found.error();
  if (found) {
    const std::string wanted = mark_text(plan);
    if (found->bytes == wanted) return {};
    Error error =
        at(destination / mark, "the directory holds a container of another shape or in other bits; choose another directory");
    error.expected = wanted.substr(0, wanted.size() - 1);
    error.got = found->bytes.substr(0, std::min(found->bytes.find('\n'), found->bytes.size()));
    return error;
  }
  std::error_code error;
  for (fs::directory_iterator entry(destination, error), end; !error && entry != end; entry.increment(error)) {
    // All that a kill right at the beginning can leave.
    if (entry->path() == DurableFile::partial(destination / mark)) continue;
    return at(destination, "the directory is not empty and holds no container of `k3 repack` (there is " +
                               entry->path().filename().string() + "); choose another or empty it first");
  }
  if (error) return at(destination, "cannot read the directory: " + error.message(), ErrorCode::io);
  return {};
}

Result<bool> copy_if_there(const fs::path& from, const fs::path& to) {
  const auto text = read_text_file(from, most_small_bytes, 0);
  if (!text) return text.error().code == ErrorCode::not_found ? Result<bool>(false) : text.error();
  auto done = write_durably(to, text->bytes);
  if (!done) return done.error();
  return true;
}

// Where a trunk's experts are: in the source's shards, in whichever directory those lie.
void add_experts_of_source(const ContainerPlan& plan, std::string& map, std::uint64_t& total) {
  const Checkpoint& source = plan.source();
  const auto parts = expected_expert(source.config());
  for (std::size_t layer = source.config().dense_layers; layer < source.config().layers; ++layer) {
    for (std::size_t expert = 0; expert < source.config().experts; ++expert) {
      const std::string prefix = "language_model." + expert_prefix(layer, expert);
      const ExpertLocation& location = source.expert(layer, expert);
      for (std::size_t part = 0; part < parts.size(); ++part) {
        const std::string file = source.files()[location.parts[part].file].path.filename().string();
        map += ",\n" + json::quoted(prefix + parts[part].name) + ": " + json::quoted(file);
        total += location.parts[part].bytes;
      }
    }
  }
}

}  // namespace

Result<void> check_destination(const fs::path& source, const fs::path& destination) {
  std::error_code error;
  const fs::path from = fs::weakly_canonical(source, error), to = fs::weakly_canonical(fs::absolute(destination), error);
  if (error) return at(destination, "cannot make out where this is: " + error.message(), ErrorCode::io);
  // Component by component, so that a neighbour of a longer name is not taken for a child.
  for (fs::path above = to;; above = above.parent_path()) {
    if (fs::equivalent(above, from, error)) {
      return at(destination, above == to ? "the container cannot be written over its source"
                                         : "the container cannot be written into its source");
    }
    if (above == above.parent_path()) return {};
  }
}

Result<void> claim_directory(const fs::path& destination, const ContainerPlan& plan) {
  std::error_code error;
  fs::create_directories(destination, error);
  if (!error && !fs::is_directory(destination, error) && !error) error = std::make_error_code(std::errc::not_a_directory);
  if (error) return at(destination, "cannot make the directory: " + error.message(), ErrorCode::io);
  auto fits = check_holding(destination, plan);
  if (!fits || fs::exists(destination / mark, error)) return fits;
  return write_durably(destination / mark, mark_text(plan));
}

Result<void> copy_small_files(const fs::path& source, const fs::path& destination) {
  for (const char* name : {"config.json", "tiktoken.model", "tokenizer_config.json"}) {
    const auto copied = copy_if_there(source / name, destination / name);
    if (!copied) return copied.error();
    if (!*copied)
      return at(source / name, "the source lacks this file, without which a model cannot be served", ErrorCode::not_found);
  }
  for (const char* name : {"generation_config.json", "chat_template.jinja", "chat_template.json", "special_tokens_map.json",
                           "tokenizer.json", "LICENSE"}) {
    const auto copied = copy_if_there(source / name, destination / name);
    if (!copied) return copied.error();
  }
  return {};
}

Result<void> write_index(const fs::path& destination, const ContainerPlan& plan) {
  std::string map;
  std::uint64_t total = 0;
  for (std::size_t shard = 0; shard < plan.shards(); ++shard) {
    const std::string file = plan.file(shard);
    const auto header = read_header(destination / file);
    if (!header) return header.error();
    for (const auto& [name, tensor] : header->tensors) {
      map += (map.empty() ? "\n" : ",\n") + json::quoted(name) + ": " + json::quoted(file);
      total += tensor.bytes;
    }
  }
  if (plan.contents() == Contents::trunk) add_experts_of_source(plan, map, total);
  const fs::path path = destination / "model.safetensors.index.json";
  const std::string text = fmt::format("{{\"metadata\": {{\"total_size\": {}}}, \"weight_map\": {{{}\n}}}}\n", total, map);
  const auto there = read_text_file(path, text.size(), 0);
  if (there && there->bytes == text) return {};  // of a released model it has 60 MB, and a cache is looked at at every start
  return write_durably(path, text);
}

}  // namespace k3::checkpoint
