#include "model/checkpoint/container_plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <unordered_set>

#include "model/checkpoint/index.hpp"
#include "model/checkpoint/quantise.hpp"
#include "model/checkpoint/safetensors.hpp"

namespace k3::checkpoint {
namespace {

constexpr std::string_view trunk_name = "trunk-";

// Layer N of "model.layers.N.…", or `layers` for what is in none: the number of its shard.
std::size_t shard_of(std::string_view name, std::size_t layers) {
  constexpr std::string_view head = "model.layers.";
  std::size_t layer = layers;
  if (name.starts_with(head)) std::from_chars(name.data() + head.size(), name.data() + name.size(), layer);
  return std::min(layer, layers);
}

std::unordered_set<std::string> names_asked_for(const Config& config) {
  std::unordered_set<std::string> names;
  const auto add = [&](const std::vector<ExpectedTensor>& tensors) {
    for (const auto& tensor : tensors) {
      names.insert(tensor.name);
      names.insert(tensor.name + scales_ending);
    }
  };
  add(expected_globals(config));
  for (std::size_t layer = 0; layer < config.layers; ++layer) add(expected_layer(config, layer));
  return names;
}

// The names of all text tensors, experts' too, with the file each lies in; sorted.
Result<std::vector<std::pair<std::string, std::uint32_t>>> all_names(const Checkpoint& checkpoint) {
  std::vector<std::pair<std::string, std::uint32_t>> names;
  for (std::uint32_t file = 0; file < checkpoint.files().size(); ++file) {
    auto header = read_header(checkpoint.files()[file].path);
    if (!header) return header.error();
    for (const auto& entry : header->tensors) {
      const auto name = without_prefix(entry.name);
      if (!is_vision(name)) names.emplace_back(name, file);
    }
  }
  std::sort(names.begin(), names.end());
  return names;
}

class ShardBuilder {
 public:
  ShardBuilder(const Checkpoint& checkpoint, ContainerShard& shard) : checkpoint_(checkpoint), shard_(shard) {}

  void copy(const std::string& name, const Tensor& source) {
    shard_.tensors.push_back({.name = "language_model." + name, .dtype = source.dtype, .shape = source.shape, .rank = source.rank});
    shard_.parts.push_back({.source = source});
  }

  void experts(std::size_t layer) {
    const auto parts = expected_expert(checkpoint_.config());
    for (std::size_t expert = 0; expert < checkpoint_.config().experts; ++expert) {
      const std::string prefix = expert_prefix(layer, expert);
      const auto& location = checkpoint_.expert(layer, expert);
      for (std::size_t part = 0; part < parts.size(); ++part) copy(prefix + parts[part].name, location.parts[part]);
    }
  }

  void matrix(const std::string& name, Precision wanted) {
    const auto stored = stored_matrix(checkpoint_, name);
    if (!stored) return;  // open() has seen it
    const Precision to = possible(wanted, stored->columns);
    if (to == stored->precision) {
      copy(name, *stored->data);
      if (stored->scales != nullptr) copy(name + scales_ending, *stored->scales);
      return;
    }
    const std::uint64_t rows = stored->rows, columns = stored->columns;
    ExpectedTensor data{.name = "language_model." + name, .dtype = DType::u8, .shape = {rows, columns}, .rank = 2};
    ExpectedTensor scales{.name = data.name + scales_ending, .dtype = DType::f32, .shape = {rows}, .rank = 1};
    if (to == Precision::int4) {
      data.shape = {rows, columns / 2};
      scales.shape = {rows, columns / int4_group};
      scales.rank = 2;
    }
    shard_.tensors.push_back(std::move(data));
    shard_.tensors.push_back(std::move(scales));
    shard_.parts.push_back({.source = *stored->data, .matrix = *stored, .to = to, .rounded = true});
  }

 private:
  const Checkpoint& checkpoint_;
  ContainerShard& shard_;
};

}  // namespace

bool is_trunk_shard(std::string_view file) { return file.starts_with(trunk_name); }

std::uint64_t ContainerShard::data_bytes() const {
  std::uint64_t bytes = 0;
  for (const auto& tensor : tensors) bytes += tensor.bytes();
  return bytes;
}

Result<ContainerPlan> ContainerPlan::make(const Checkpoint& checkpoint, const TrunkPrecision& precision, Contents contents) {
  const auto names = all_names(checkpoint);
  if (!names) return names.error();
  const auto twice =
      std::adjacent_find(names->begin(), names->end(), [](const auto& a, const auto& b) { return a.first == b.first; });
  if (twice != names->end()) {
    const auto path = [&](const auto& entry) { return checkpoint.files()[entry.second].path.filename().string(); };
    return fail(ErrorCode::corrupt, fmt::format("tensor {} is in {} and again in {}: which one is meant cannot be told",
                                                twice->first, path(*twice), path(*std::next(twice))));
  }
  const auto asked_for = names_asked_for(checkpoint.config());
  std::vector<std::string> others;
  for (const auto& [name, file] : *names) {
    if (asked_for.contains(name) || parse_expert_name(name)) continue;
    const Tensor* tensor = checkpoint.find(name);
    if (tensor == nullptr) continue;  // the index does not know it
    if (tensor->dtype == DType::other) {
      return Error{.code = ErrorCode::unsupported,
                   .message = "tensor " + name + " is of a type that this build cannot write",
                   .file = checkpoint.files()[file].path.string(),
                   .expected = "BF16, F32 or U8"};
    }
    others.push_back(name);
  }
  return ContainerPlan(checkpoint, precision, contents, std::move(others));
}

std::size_t ContainerPlan::shards() const { return checkpoint_->config().layers + 1; }

std::string ContainerPlan::file(std::size_t shard) const {
  // Not the same names, or a search for the source's shards would find a trunk's.
  return fmt::format("{}{:05}-of-{:06}.safetensors", contents_ == Contents::all ? "model-" : trunk_name, shard + 1, shards());
}

ContainerShard ContainerPlan::shard(std::size_t number) const {
  const Config& config = checkpoint_->config();
  const bool is_layer = number < config.layers, is_kda = is_layer && config.is_kda[number];
  ContainerShard shard;
  shard.file = file(number);
  ShardBuilder builder(*checkpoint_, shard);
  if (is_layer && !config.is_dense(number) && contents_ == Contents::all) builder.experts(number);
  const auto tensors = is_layer ? expected_layer(config, number) : expected_globals(config);
  for (const auto& tensor : tensors) {
    if (is_matrix(tensor)) builder.matrix(tensor.name, precision_.of(bits_of(tensor.name, is_kda)));
  }
  for (const auto& tensor : tensors) {
    if (!is_matrix(tensor)) builder.copy(tensor.name, *checkpoint_->find(tensor.name));
  }
  for (const auto& name : others_) {
    if (shard_of(name, config.layers) == number) builder.copy(name, *checkpoint_->find(name));
  }
  return shard;
}

}  // namespace k3::checkpoint
