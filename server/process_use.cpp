#include <sys/resource.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "server/metrics.hpp"

namespace k3::server {
namespace {

// The fields of /proc/self/stat that follow the program's name, which may hold anything.
std::istringstream statistics() {
  std::ifstream file("/proc/self/stat");
  std::string line;
  std::getline(file, line);
  const std::size_t name = line.rfind(')');
  return std::istringstream(name == std::string::npos ? std::string() : line.substr(name + 1));
}

double boot_time() {
  std::ifstream file("/proc/stat");
  for (std::string word; file >> word;) {
    double seconds = 0;
    if (word == "btime" && file >> seconds) return seconds;
  }
  return 0;
}

std::uint64_t open_files() {
  std::error_code error;
  std::uint64_t count = 0;
  for (std::filesystem::directory_iterator entry("/proc/self/fd", error), end; !error && entry != end; entry.increment(error))
    ++count;
  return count > 0 ? count - 1 : 0;  // the directory itself
}

}  // namespace

ProcessUse process_use() {
  ProcessUse use;
  std::string skipped;
  auto fields = statistics();
  double user = 0, kernel = 0, started = 0;
  std::uint64_t pages = 0;
  // proc(5): state is the 3rd field, utime the 14th, num_threads the 20th, starttime the 22nd, vsize and rss follow.
  for (int i = 3; i < 14; ++i) fields >> skipped;
  fields >> user >> kernel;
  for (int i = 16; i < 20; ++i) fields >> skipped;
  fields >> use.threads >> skipped >> started >> use.virtual_bytes >> pages;
  const auto ticks = static_cast<double>(::sysconf(_SC_CLK_TCK));
  use.cpu_seconds = (user + kernel) / ticks;
  use.start_time = boot_time() + started / ticks;
  use.resident_bytes = pages * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  use.open_files = open_files();
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) == 0) use.most_files = limit.rlim_cur;
  return use;
}

}  // namespace k3::server
