#include "model/checkpoint/index.hpp"

#include <simdjson.h>

#include <algorithm>
#include <charconv>
#include <iterator>
#include <numeric>
#include <unordered_map>

#include "model/checkpoint/file_io.hpp"
#include "model/checkpoint/safetensors.hpp"

namespace k3::checkpoint {
namespace {

namespace od = simdjson::ondemand;

// Sixteen times the released index.
constexpr std::uint64_t max_index_bytes = std::uint64_t{1} << 30;

bool cut(std::string_view& text, std::string_view head) {
  if (!text.starts_with(head)) return false;
  text.remove_prefix(head.size());
  return true;
}

// A decimal number as an index writes it: no sign, no leading zero, so that one tensor has one name.
bool cut_number(std::string_view& text, std::uint32_t& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const auto digits = static_cast<std::size_t>(end - text.data());
  if (error != std::errc{} || digits == 0 || (digits > 1 && text.front() == '0')) return false;
  text.remove_prefix(digits);
  return true;
}

class IndexBuilder {
 public:
  explicit IndexBuilder(const std::string& file) : file_(file) {}

  Result<void> add(std::string_view full_name, std::string_view shard) {
    const auto name = without_prefix(full_name);
    if (is_vision(name)) return {};
    const auto number = shard_number(shard);
    if (!number) return number.error();
    if (const auto part = parse_expert_name(name)) {
      index_.experts.push_back({*part, *number});
    } else {
      index_.others.push_back({std::string(name), *number});
    }
    return {};
  }

  Result<Index> finish() {
    if (index_.others.empty()) return corrupt("the index names no text tensor");
    sort_shards();
    std::sort(index_.experts.begin(), index_.experts.end(), [](const auto& a, const auto& b) { return a.part < b.part; });
    std::sort(index_.others.begin(), index_.others.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
    const auto other = std::adjacent_find(index_.others.begin(), index_.others.end(),
                                          [](const auto& a, const auto& b) { return a.name == b.name; });
    if (other != index_.others.end()) return twice("tensor " + other->name, other->shard, std::next(other)->shard);
    const auto expert = std::adjacent_find(index_.experts.begin(), index_.experts.end(),
                                           [](const auto& a, const auto& b) { return a.part == b.part; });
    if (expert != index_.experts.end()) {
      return twice("a part of expert " + std::to_string(expert->part.expert) + " of layer " + std::to_string(expert->part.layer),
                   expert->shard, std::next(expert)->shard);
    }
    return std::move(index_);
  }

  Error corrupt(std::string message) const {
    return Error{.code = ErrorCode::corrupt, .message = std::move(message), .file = file_};
  }

 private:
  Error twice(const std::string& what, std::uint32_t first, std::uint32_t second) const {
    return corrupt(what + " occurs twice in the index: in " + index_.shards[first] + " and in " + index_.shards[second]);
  }

  Result<std::uint32_t> shard_number(std::string_view shard) {
    // Neighbours in the index share their shard, so the last answer nearly always fits.
    if (!index_.shards.empty() && index_.shards[last_] == shard) return last_;
    const auto found = numbers_.find(std::string(shard));
    if (found != numbers_.end()) return last_ = found->second;
    // A name with a slash would let an index point outside its directory.
    if (shard.empty() || shard == "." || shard == ".." || shard.find('/') != std::string_view::npos ||
        shard.find('\0') != std::string_view::npos) {
      return corrupt("shard name is not a plain file name: " + json_safe(shard));
    }
    last_ = static_cast<std::uint32_t>(index_.shards.size());
    index_.shards.emplace_back(shard);
    numbers_.emplace(std::string(shard), last_);
    return last_;
  }

  static std::string json_safe(std::string_view text) {
    std::string out;
    for (const char c : text.substr(0, 80)) out += static_cast<unsigned char>(c) < 0x20 ? '?' : c;
    return out;
  }

  void sort_shards() {
    std::vector<std::uint32_t> order(index_.shards.size()), rank(order.size());
    std::iota(order.begin(), order.end(), 0U);
    std::sort(order.begin(), order.end(), [&](auto a, auto b) { return index_.shards[a] < index_.shards[b]; });
    for (std::uint32_t i = 0; i < order.size(); ++i) rank[order[i]] = i;
    std::sort(index_.shards.begin(), index_.shards.end());
    for (auto& entry : index_.experts) entry.shard = rank[entry.shard];
    for (auto& entry : index_.others) entry.shard = rank[entry.shard];
  }

  const std::string& file_;
  Index index_;
  std::unordered_map<std::string, std::uint32_t> numbers_;
  std::uint32_t last_ = 0;
};

Result<void> walk_weight_map(od::object map, IndexBuilder& builder) {
  for (auto field : map) {
    std::string_view name, shard;
    if (field.unescaped_key().get(name) || field.value().get_string().get(shard)) {
      return builder.corrupt("weight_map is not a valid JSON map from tensor names to shard names");
    }
    auto added = builder.add(name, shard);
    if (!added) return added;
  }
  return {};
}

Result<Index> walk(simdjson::padded_string_view json, const std::string& file) {
  IndexBuilder builder(file);
  od::parser parser;
  od::document document;
  od::object root;
  if (parser.iterate(json).get(document) || document.get_object().get(root))
    return builder.corrupt("the index is not a JSON object");
  bool has_map = false;
  for (auto field : root) {
    std::string_view key;
    if (field.unescaped_key().get(key)) return builder.corrupt("the index is not valid JSON");
    if (key != "weight_map") continue;
    od::object map;
    if (has_map || field.value().get_object().get(map)) return builder.corrupt("the index needs one weight_map, an object");
    has_map = true;
    auto walked = walk_weight_map(map, builder);
    if (!walked) return walked.error();
  }
  if (!has_map) return builder.corrupt("the index has no weight_map");
  return builder.finish();
}

Result<Index> index_of_single_file(const std::filesystem::path& path) {
  const auto header = read_header(path);
  if (!header) return header.error();
  const std::string file = path.string(), shard = path.filename().string();
  IndexBuilder builder(file);
  for (const auto& entry : header->tensors) {
    auto added = builder.add(entry.name, shard);
    if (!added) return added.error();
  }
  return builder.finish();
}

}  // namespace

std::optional<ExpertPart> parse_expert_name(std::string_view name) {
  ExpertPart part;
  if (!cut(name, "model.layers.") || !cut_number(name, part.layer) || !cut(name, ".block_sparse_moe.experts.") ||
      !cut_number(name, part.expert) || !cut(name, ".w") || name.empty() || name.front() < '1' || name.front() > '3') {
    return std::nullopt;
  }
  part.part = static_cast<std::uint32_t>(name.front() - '1') * 2;
  name.remove_prefix(1);
  if (name == ".weight_packed") return part;
  if (name != ".weight_scale") return std::nullopt;
  ++part.part;
  return part;
}

std::string_view without_prefix(std::string_view name) {
  cut(name, "language_model.");
  return name;
}

bool is_vision(std::string_view name) { return name.starts_with("mm_projector.") || name.starts_with("vision_tower."); }

Result<Index> parse_index(std::string_view json, const std::string& file) { return walk(simdjson::padded_string(json), file); }

Result<Index> load_index(const std::filesystem::path& directory) {
  const auto path = directory / "model.safetensors.index.json";
  const auto text = read_text_file(path, max_index_bytes, simdjson::SIMDJSON_PADDING);
  if (text) return walk(simdjson::padded_string_view(text->bytes.data(), text->size, text->bytes.size()), path.string());
  if (text.error().code != ErrorCode::not_found) return text.error();
  auto single = index_of_single_file(directory / "model.safetensors");
  if (single || single.error().code != ErrorCode::not_found) return single;
  return Error{.code = ErrorCode::not_found,
               .message = "neither model.safetensors.index.json nor model.safetensors is there: the download is incomplete",
               .file = directory.string()};
}

}  // namespace k3::checkpoint
