// A checkpoint directory opened: which tensor lies where. Reads headers only; data is read by weights.hpp and experts/.
#pragma once

#include <array>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "model/checkpoint/config.hpp"

namespace k3::checkpoint {

enum class DType : std::uint8_t { bf16, f32, u8, other };

struct Tensor {
  DType dtype = DType::other;
  std::uint32_t file = 0;    // index into Checkpoint::files()
  std::uint64_t offset = 0;  // bytes from the start of the file
  std::uint64_t bytes = 0;
  std::array<std::uint64_t, 4> shape{};
  std::uint8_t rank = 0;
};

// A shard in one more directory. Each directory counts as a drive of its own, by the number here.
struct Copy {
  std::filesystem::path path;
  std::uint32_t drive = 0;
};

struct File {
  std::filesystem::path path;
  std::uint64_t bytes = 0;
  std::uint32_t drive = 0;
  std::vector<Copy> more{};  // of the same size and header; copies.hpp has what reads them
};

// In which shards may lie, the model's own included: which of a file's copies were tried fits into 32 bits.
inline constexpr std::size_t most_directories = 32;

// The six tensors of one expert, in the order w1, w2, w3, packed before scale: where each lies. In released shards they are
// contiguous, in which case one read fetches all.
struct ExpertLocation {
  std::array<Tensor, 6> parts;
};

class Checkpoint {
 public:
  // Opens DIRECTORY: config, index, the header of every shard that holds text tensors. All missing or short shards are listed in
  // one error; vision shards are never opened. The prefix `language_model.` is probed (derived checkpoints drop it).
  // Shards may lie in `others` too, instead or as well; config, index and vocabulary are DIRECTORY's.
  static Result<Checkpoint> open(const std::filesystem::path& directory, std::span<const std::filesystem::path> others = {});

  const std::filesystem::path& directory() const { return directory_; }
  const Config& config() const { return config_; }
  const std::vector<File>& files() const { return files_; }
  // Damaged copies of shards that are good elsewhere, and directories without any: what the user should know and is no error.
  const std::vector<Error>& left_out() const { return left_out_; }
  // `name` without the probed prefix, e.g. "model.layers.0.input_layernorm.weight" or "lm_head.weight"; nullptr when absent.
  const Tensor* find(std::string_view name) const;
  // layer counts from 0 (dense layers have no experts: asserts). Sizes are validated against the config at open().
  const ExpertLocation& expert(std::size_t layer, std::size_t expert) const;
  std::uint64_t expert_bytes() const;  // of one expert, all six parts together

 private:
  friend struct CheckpointLoader;
  struct NameHash {
    using is_transparent = void;
    std::size_t operator()(std::string_view s) const { return std::hash<std::string_view>{}(s); }
  };
  std::filesystem::path directory_;
  Config config_;
  std::vector<File> files_;
  std::vector<Error> left_out_;
  std::unordered_map<std::string, Tensor, NameHash, std::equal_to<>> tensors_;
  std::vector<ExpertLocation> experts_;  // [layers - dense_layers][experts]
};

}  // namespace k3::checkpoint
