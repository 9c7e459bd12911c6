#include "model/checkpoint/checkpoint.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>

#include "model/checkpoint/container_plan.hpp"
#include "model/checkpoint/index.hpp"
#include "model/checkpoint/safetensors.hpp"
#include "model/checkpoint/shard_search.hpp"
#include "model/checkpoint/stored_matrix.hpp"
#include "model/checkpoint/tensor_list.hpp"

namespace k3::checkpoint {
namespace {

// A place that the index promises and no header has filled yet.
constexpr std::uint8_t unseen = 255;
// Names listed in one message; beyond them only the count.
constexpr std::size_t listed_most = 20;

std::string listing(const std::vector<std::string>& lines) {
  std::string text;
  for (std::size_t i = 0; i < std::min(lines.size(), listed_most); ++i) text += "\n  " + lines[i];
  if (lines.size() > listed_most) text += fmt::format("\n  and {} more", lines.size() - listed_most);
  return text;
}

}  // namespace

// Fills a Checkpoint step by step; a friend, so that the class itself has no half-open state.
struct CheckpointLoader {
  Checkpoint checkpoint;

  Error error(ErrorCode code, std::string message) const {
    return Error{.code = code, .message = std::move(message), .file = checkpoint.directory_.string()};
  }

  std::size_t table_slot(std::size_t layer, std::size_t expert) const {
    return (layer - checkpoint.config_.dense_layers) * checkpoint.config_.experts + expert;
  }

  // Places for everything the index promises. The expert table is sized by the config only after the index has shown as many
  // entries, so that a wrong config cannot ask for memory.
  Result<void> reserve(const Index& index) {
    const Config& config = checkpoint.config_;
    const std::size_t slots = (config.layers - config.dense_layers) * config.experts;
    if (index.experts.size() != slots * 6) return wrong_expert_count(index, slots * 6);
    checkpoint.experts_.resize(slots);
    for (const auto& [part, shard] : index.experts) {
      if (part.layer < config.dense_layers || part.layer >= config.layers || part.expert >= config.experts)
        return stray_expert(part);
      Tensor& place = checkpoint.experts_[table_slot(part.layer, part.expert)].parts[part.part];
      place.file = shard;
      place.rank = unseen;
    }
    checkpoint.tensors_.reserve(index.others.size());
    for (const auto& [name, shard] : index.others) {
      Tensor place;
      place.file = shard;
      place.rank = unseen;
      checkpoint.tensors_.emplace(name, place);
    }
    return {};
  }

  Error stray_expert(const ExpertPart& part) const {
    const Config& c = checkpoint.config_;
    return error(ErrorCode::corrupt,
                 fmt::format("the index has expert {} of layer {}, but config.json says {} experts in layers {} to {}", part.expert,
                             part.layer, c.experts, c.dense_layers, c.layers - 1));
  }

  Error wrong_expert_count(const Index& index, std::size_t expected) const {
    for (const auto& entry : index.others) {
      if (entry.name.find(".experts.") != std::string::npos && entry.name.ends_with(".weight")) {
        return error(ErrorCode::unsupported,
                     "routed experts must be MXFP4 (weight_packed and weight_scale); the index has " + entry.name);
      }
    }
    const Config& c = checkpoint.config_;
    for (const auto& entry : index.experts) {
      const auto& part = entry.part;
      if (part.layer < c.dense_layers || part.layer >= c.layers || part.expert >= c.experts) return stray_expert(part);
    }
    Error wrong = error(ErrorCode::corrupt, "the index does not name all routed experts that config.json asks for");
    wrong.expected = fmt::format("{} tensors", expected);
    wrong.got = std::to_string(index.experts.size());
    return wrong;
  }

  // Reads each shard's header once. What is wrong with a shard is collected: whoever downloads 1.5 TB wants the whole list.
  Result<void> read_shards(const std::vector<std::string>& shards, std::span<const std::filesystem::path> others) {
    auto search = ShardSearch::make(checkpoint.directory_, others);
    if (!search) return search.error();
    std::vector<std::string> faults;
    bool missing = false;
    for (std::uint32_t i = 0; i < shards.size(); ++i) {
      auto found = search->find(shards[i]);
      if (found) {
        checkpoint.files_.push_back(std::move(found->file));
        for (const auto& entry : found->header.tensors) place(entry, i);
        continue;
      }
      Error fault = found.error();
      missing |= fault.code == ErrorCode::not_found;
      if (others.empty()) fault.file.clear();
      faults.push_back(shards[i] + ": " + fault.describe());
    }
    checkpoint.left_out_ = search->left_out();
    if (faults.empty()) return {};
    const bool trunk = std::any_of(shards.begin(), shards.end(), is_trunk_shard);
    const char* const advice = trunk && missing ? "experts lie in the shards of the checkpoint that this trunk was made from: name "
                                                  "its directory with --dirs"
                                                : "copy or download these files again";
    return error(
        missing ? ErrorCode::not_found : ErrorCode::corrupt,
        fmt::format("{} of {} shards are missing or damaged; {}:{}", faults.size(), shards.size(), advice, listing(faults)));
  }

  void place(const NamedTensor& entry, std::uint32_t file) {
    const auto name = without_prefix(entry.name);
    Tensor* slot = nullptr;
    if (const auto part = parse_expert_name(name)) {
      const Config& c = checkpoint.config_;
      if (part->layer < c.dense_layers || part->layer >= c.layers || part->expert >= c.experts) return;
      slot = &checkpoint.experts_[table_slot(part->layer, part->expert)].parts[part->part];
    } else if (const auto found = checkpoint.tensors_.find(name); found != checkpoint.tensors_.end()) {
      slot = &found->second;
    }
    // The index decides: a copy in another shard is not the one that is meant.
    if (slot == nullptr || slot->file != file) return;
    *slot = entry.tensor;
    slot->file = file;
  }

  void note_unseen(const Tensor& tensor, const std::string& name, std::vector<std::string>& faults) const {
    if (tensor.rank != unseen) return;
    faults.push_back(name + ": in the index for " + checkpoint.files_[tensor.file].path.filename().string() +
                     ", which does not hold it");
  }

  // Rounded, with its scales beside it: what `k3 repack` and other tools make of the matrices that bear it.
  bool is_prepared(const ExpectedTensor& expected, const std::string& name) const {
    // Which switch it is under does not matter here, so nor does the kind of layer.
    if (expected.dtype != DType::bf16 || bits_of(name, false) == BitsOf::released) return false;
    const auto matrix = stored_matrix(checkpoint, name);
    return matrix && matrix->scales != nullptr && matrix->scales->rank != unseen && matrix->rows == expected.shape[0] &&
           matrix->columns == expected.shape[1];
  }

  void check(const ExpectedTensor& expected, const Tensor* tensor, const std::string& name,
             std::vector<std::string>& faults) const {
    if (tensor == nullptr) {
      faults.push_back(name + ": not in the index");
    } else if (tensor->rank != unseen && !expected.matches(*tensor) && !is_prepared(expected, name)) {
      faults.push_back(fmt::format(
          "{}: expected {}, got {} in {}", name, describe_type(expected.dtype, expected.shape, expected.rank),
          describe_type(tensor->dtype, tensor->shape, tensor->rank), checkpoint.files_[tensor->file].path.filename().string()));
    }
  }

  Result<void> check_tensors() const {
    std::vector<std::string> faults;
    const Config& config = checkpoint.config_;
    const auto parts = expected_expert(config);
    for (const auto& [name, tensor] : checkpoint.tensors_) note_unseen(tensor, name, faults);
    std::sort(faults.begin(), faults.end());
    for (const auto& expected : expected_globals(config)) check(expected, checkpoint.find(expected.name), expected.name, faults);
    for (std::size_t layer = 0; layer < config.layers; ++layer) {
      for (const auto& expected : expected_layer(config, layer))
        check(expected, checkpoint.find(expected.name), expected.name, faults);
      if (config.is_dense(layer)) continue;
      for (std::size_t expert = 0; expert < config.experts; ++expert) {
        const auto& location = checkpoint.experts_[table_slot(layer, expert)];
        for (std::size_t part = 0; part < parts.size(); ++part) {
          // The name is made only for a message: 500,000 of them would cost more than all other checks.
          if (location.parts[part].rank != unseen && parts[part].matches(location.parts[part])) continue;
          const auto name = expert_prefix(layer, expert) + parts[part].name;
          note_unseen(location.parts[part], name, faults);
          check(parts[part], &location.parts[part], name, faults);
        }
      }
    }
    if (faults.empty()) return {};
    return error(
        ErrorCode::corrupt,
        fmt::format(
            "{} tensors do not fit config.json; config.json, the index and the shards must come from the same checkpoint:{}",
            faults.size(), listing(faults)));
  }
};

Result<Checkpoint> Checkpoint::open(const std::filesystem::path& directory, std::span<const std::filesystem::path> others) {
  auto config = load_config(directory);
  if (!config) return config.error();
  const auto index = load_index(directory);
  if (!index) return index.error();
  CheckpointLoader loader;
  loader.checkpoint.directory_ = directory;
  loader.checkpoint.config_ = std::move(*config);
  auto done = loader.reserve(*index);
  if (done) done = loader.read_shards(index->shards, others);
  if (done) done = loader.check_tensors();
  if (!done) return done.error();
  return std::move(loader.checkpoint);
}

const Tensor* Checkpoint::find(std::string_view name) const {
  const auto found = tensors_.find(name);
  return found == tensors_.end() ? nullptr : &found->second;
}

const ExpertLocation& Checkpoint::expert(std::size_t layer, std::size_t expert) const {
  assert(layer >= config_.dense_layers && layer < config_.layers && expert < config_.experts);
  return experts_[(layer - config_.dense_layers) * config_.experts + expert];
}

std::uint64_t Checkpoint::expert_bytes() const {
  std::uint64_t bytes = 0;
  for (const auto& part : expected_expert(config_)) bytes += part.bytes();
  return bytes;
}

}  // namespace k3::checkpoint
