#include "model/machine_memory.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>

namespace k3 {

namespace {

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

std::uint64_t own_memory() {
  return 1024 * (value_of("/proc/self/status", "RssAnon:").value_or(0) + value_of("/proc/self/status", "RssShmem:").value_or(0));
}

}  // namespace k3
