#include "tools/drive.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

namespace k3::cli {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t alignment = 4096;  // what every drive's O_DIRECT accepts
constexpr std::size_t block = 8U << 20;  // half an expert at the released size: large enough that the drive is the limit
constexpr unsigned readers = 4;          // reads in flight; more gains nothing on most drives
constexpr std::uint64_t most_bytes = 4ULL << 30;

struct Place {
  std::size_t file = 0;
  std::uint64_t offset = 0;
};

// Blocks in an order that jumps between the files and within them, as experts do. A last partial block is left out unless it is all
// there is.
std::vector<Place> places(std::span<const checkpoint::File> files) {
  std::vector<Place> out;
  for (std::size_t file = 0; file < files.size(); ++file) {
    for (std::uint64_t offset = 0; offset == 0 || offset + block <= files[file].bytes; offset += block)
      out.push_back({file, offset});
  }
  std::uint64_t state = 1;
  for (std::size_t i = out.size(); i > 1; --i) {
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    std::swap(out[i - 1], out[(state >> 33) % i]);
  }
  return out;
}

struct Opened {
  std::vector<int> descriptors;
  bool direct = true;
  ~Opened() {
    for (const int fd : descriptors) ::close(fd);
  }
};

Result<void> open_all(std::span<const checkpoint::File> files, Opened& out) {
  for (const checkpoint::File& file : files) {
    int fd = out.direct ? ::open(file.path.c_str(), O_RDONLY | O_CLOEXEC | O_DIRECT) : -1;
    if (fd < 0) {
      fd = ::open(file.path.c_str(), O_RDONLY | O_CLOEXEC);
      out.direct = false;
    }
    if (fd < 0) {
      Error error = fail(ErrorCode::io, std::strerror(errno));
      error.file = file.path.string();
      return error;
    }
    out.descriptors.push_back(fd);
  }
  return {};
}

struct Free {
  void operator()(void* memory) const { std::free(memory); }
};

}  // namespace

Result<DriveSpeed> measure_drive(std::span<const checkpoint::File> files, double seconds) {
  Opened opened;
  if (auto done = open_all(files, opened); done.has_error()) return done.error();
  const std::vector<Place> order = places(files);
  std::atomic<std::size_t> next{0};
  std::atomic<std::uint64_t> bytes{0};
  std::atomic<int> failure{0};
  const auto begin = Clock::now();
  const auto end = begin + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
  const auto reader = [&] {
    const std::unique_ptr<void, Free> buffer(std::aligned_alloc(alignment, block));
    while (buffer && Clock::now() < end && bytes.load() < most_bytes && failure.load() == 0) {
      const std::size_t i = next.fetch_add(1);
      if (i >= order.size()) return;  // each place once: a second time it might come from somebody's cache
      const ssize_t got = ::pread(opened.descriptors[order[i].file], buffer.get(), block, static_cast<off_t>(order[i].offset));
      if (got < 0) {
        failure.store(errno);
      } else {
        bytes.fetch_add(static_cast<std::uint64_t>(got));
      }
    }
  };
  {
    std::vector<std::jthread> threads;
    for (unsigned i = 0; i < readers; ++i) threads.emplace_back(reader);
  }
  if (failure.load() != 0) return fail(ErrorCode::io, std::string("reading the model's files: ") + std::strerror(failure.load()));
  const double took = std::chrono::duration<double>(Clock::now() - begin).count();
  DriveSpeed speed;
  speed.gigabytes_read = static_cast<double>(bytes.load()) / 1e9;
  speed.gigabytes_per_second = took > 0 ? speed.gigabytes_read / took : 0;
  speed.direct = opened.direct;
  return speed;
}

double measure_memory(unsigned threads) {
  // 64 MiB a thread, twice: larger than the caches of most machines, over in a tenth of a second. The first pass only maps the
  // pages.
  constexpr std::size_t words = (64U << 20) / sizeof(std::uint64_t);
  std::atomic<std::uint64_t> sink{0};
  std::vector<std::vector<std::uint64_t>> memory(threads, std::vector<std::uint64_t>(words, 1));
  constexpr int passes = 4;
  const auto begin = Clock::now();
  {
    std::vector<std::jthread> running;
    for (unsigned i = 0; i < threads; ++i) {
      running.emplace_back([&, i] {
        std::uint64_t sum = 0;
        for (int pass = 0; pass < passes; ++pass) {
          for (const std::uint64_t word : memory[i]) sum += word + static_cast<std::uint64_t>(pass);
        }
        sink.fetch_add(sum);
      });
    }
  }
  const double took = std::chrono::duration<double>(Clock::now() - begin).count();
  return took > 0 && sink.load() != 0 ? static_cast<double>(words * sizeof(std::uint64_t)) * threads * passes / took : 0;
}

}  // namespace k3::cli
