#include "model/actor_memory.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>

namespace k3 {

namespace {

constexpr std::uint64_t mb = 1'000'000;

// "Key: 123 kB" or "key 123" lines; the number as it stands.
std::optional<std::uint64_t> value_of(const std::filesystem::path& file, std::string_view key) {
  std::ifstream in(file);
  std::string name;
  std::uint64_t value = 0;
  for (std::string line; std::getline(in, line);) {
    const std::size_t space = line.find(' ');
    name = line.substr(0, space);
    if (name != key || space == std::string::npos) continue;
    value = std::strtoull(line.c_str() + space, nullptr, 10);
    return value;
  }
  return std::nullopt;
}

std::optional<std::uint64_t> number_in(const std::filesystem::path& file) {
  std::ifstream in(file);
  std::uint64_t value = 0;
  if (in >> value) return value;
  return std::nullopt;  // "max", or no such file
}

// Room in one cgroup v2 directory. Its usage includes page cache, which the kernel gives back when asked.
std::optional<std::uint64_t> room_in(const std::filesystem::path& group) {
  const auto limit = number_in(group / "memory.max");
  const auto used = number_in(group / "memory.current");
  if (!limit || !used) return std::nullopt;
  const auto stat = group / "memory.stat";
  const std::uint64_t cache = value_of(stat, "inactive_file").value_or(0) + value_of(stat, "active_file").value_or(0);
  const std::uint64_t held = *used - std::min(*used, cache);
  return *limit - std::min(*limit, held);
}

// /proc/self/cgroup has the line "0::/path" for version 2; inside a container the path may be invisible and the root is ours.
std::filesystem::path own_group() {
  std::ifstream in("/proc/self/cgroup");
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("0::/")) return std::filesystem::path("/sys/fs/cgroup") / line.substr(4);
  }
  return "/sys/fs/cgroup";
}

}  // namespace

std::uint64_t available_memory() {
  std::uint64_t room = value_of("/proc/meminfo", "MemAvailable:").value_or(0) * 1024;
  const std::filesystem::path root = "/sys/fs/cgroup";
  for (std::filesystem::path group = own_group();; group = group.parent_path()) {
    if (const auto left = room_in(group)) room = std::min(room, *left);
    if (group == root || group == group.parent_path()) break;
  }
  return room;
}

std::uint64_t working_memory(const checkpoint::Config& c, std::size_t context, std::size_t chunk, LatentFormat latents) {
  const auto kda_layers = static_cast<std::uint64_t>(std::count(c.is_kda.begin(), c.is_kda.end(), true));
  const std::uint64_t mla_layers = c.layers - kda_layers;
  // Two buffers a KDA layer. The MLA cache grows with use; a conversation beyond 32k tokens is planned for when somebody has one.
  const std::uint64_t kda = 2 * kda_layers * (c.kda_width() * c.kda_head_dim + 9 * c.kda_width()) * sizeof(float);
  const std::uint64_t mla = mla_layers * std::min<std::uint64_t>(context, 32768) * c.mla_cache_width() * latent_bytes(latents);
  // A row: the residual stream with its snapshots and temporaries, five projections of attention, the experts' sums, dense or
  // shared inner.
  const std::uint64_t blocks = c.layers / std::max<std::size_t>(1, c.block_size) + 1;
  const std::uint64_t attention =
      std::max(5 * c.kda_width(), c.mla_heads * (2 * c.nope_dim + 2 * c.rope_dim + 3 * c.v_dim + c.kv_rank));
  const std::uint64_t row =
      (c.hidden * (blocks + 6) + attention + 8 * c.latent + 3 * std::max(c.dense_inner, c.shared_inner())) * sizeof(float);
  return live_sequences * (kda + mla) + chunk * row + 256 * mb;
}

std::uint64_t expert_budget(std::uint64_t available, std::uint64_t trunk, std::uint64_t working) {
  // One part in sixteen stays free: MemAvailable is an estimate, and other programs live here too.
  const std::uint64_t taken = trunk + working + available / 16;
  return available - std::min(available, taken);
}

}  // namespace k3
