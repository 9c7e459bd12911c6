#include "model/compute_pool.hpp"

#include <sched.h>

#include <algorithm>
#include <cassert>
#include <fstream>
#include <set>
#include <string>
#include <utility>

namespace k3 {

namespace {

// cpu.max holds "QUOTA PERIOD" in microseconds, or "max PERIOD".
unsigned cgroup_cpus() {
  std::ifstream file("/sys/fs/cgroup/cpu.max");
  std::string quota;
  double period = 0;
  if (!(file >> quota >> period) || quota == "max" || period <= 0) return 0;
  const double cpus = std::strtod(quota.c_str(), nullptr) / period;
  return cpus <= 0 ? 0 : std::max(1U, static_cast<unsigned>(cpus + 0.5));
}

}  // namespace

unsigned count_cores(const std::vector<unsigned>& cpus, const std::filesystem::path& topology) {
  std::set<std::string> cores;
  for (const unsigned cpu : cpus) {
    std::ifstream file(topology / ("cpu" + std::to_string(cpu)) / "topology" / "thread_siblings_list");
    std::string siblings;
    cores.insert(std::getline(file, siblings) ? siblings : "cpu " + std::to_string(cpu));
  }
  return static_cast<unsigned>(cores.size());
}

unsigned usable_cores() {
  std::vector<unsigned> cpus;
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) == 0) {
    for (unsigned cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
      if (CPU_ISSET(cpu, &set)) cpus.push_back(cpu);
    }
  }
  unsigned cores = cpus.empty() ? std::thread::hardware_concurrency() : count_cores(cpus, "/sys/devices/system/cpu");
  if (const unsigned quota = cgroup_cpus(); quota != 0) cores = std::min(cores, quota);
  return std::max(1U, cores);
}

namespace {

thread_local unsigned index_of_this_thread = 0;

constexpr std::uint64_t count_mask = 0xffff'ffff;
// How often a thread looks for what it waits for before it sleeps: some 20 us. Waking takes as long, which is a tenth of an
// expert's whole product; to look longer would burn a core while the drive is waited for, or keep it from another process.
constexpr unsigned looks = 1000;

// False: not yet.
template <class Happened>
bool look_for(const Happened& happened) {
  for (unsigned i = 0; i < looks; ++i) {
    if (happened()) return true;
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
  }
  return false;
}

}  // namespace

unsigned ComputePool::thread_index() { return index_of_this_thread; }

ComputePool::ComputePool(unsigned threads) {
  if (threads == 0) threads = usable_cores();
  for (unsigned i = 1; i < threads; ++i) {
    workers_.emplace_back([this, i] {
      index_of_this_thread = i;
      worker();
    });
  }
}

ComputePool::~ComputePool() {
  stopping_.store(true, std::memory_order_relaxed);
  jobs_.fetch_add(1, std::memory_order_release);
  jobs_.notify_all();
  workers_.clear();  // joins
}

bool ComputePool::run(std::size_t blocks, FunctionRef<void(std::size_t)> work, FunctionRef<bool()> proceed) {
  if (workers_.empty() || blocks <= 1) {
    for (std::size_t i = 0; i < blocks; ++i) {
      if (proceed && !proceed()) return false;
      work(i);
    }
    return true;
  }
  assert(blocks <= count_mask);
  work_ = work;
  blocks_ = blocks;
  const std::uint64_t job = left_.load(std::memory_order_relaxed) / (count_mask + 1) + 1;
  unfinished_.store(static_cast<std::uint32_t>(blocks), std::memory_order_relaxed);
  left_.store(job * (count_mask + 1) + blocks, std::memory_order_release);
  jobs_.fetch_add(1, std::memory_order_release);
  jobs_.notify_all();

  bool halted = false;
  // Asked on the calling thread only: what proceed() counts and reads belongs to the model thread.
  for (std::size_t block = 0;;) {
    if (proceed && !proceed()) {
      const std::uint64_t left = left_.exchange(job * (count_mask + 1), std::memory_order_relaxed) & count_mask;
      finish(static_cast<std::uint32_t>(left));
      halted = true;
      break;
    }
    if (!take(block)) break;
    work_(block);
    finish(1);
  }
  const auto ended = [this] { return unfinished_.load(std::memory_order_acquire) == 0; };
  if (!look_for(ended)) {
    while (const std::uint32_t count = unfinished_.load(std::memory_order_acquire)) unfinished_.wait(count);
  }
  return !halted;
}

bool ComputePool::take(std::size_t& block) {
  std::uint64_t left = left_.load(std::memory_order_acquire);
  while ((left & count_mask) != 0) {
    if (!left_.compare_exchange_weak(left, left - 1, std::memory_order_acquire)) continue;
    block = blocks_ - (left & count_mask);
    return true;
  }
  return false;
}

void ComputePool::finish(std::uint32_t blocks) {
  if (unfinished_.fetch_sub(blocks, std::memory_order_acq_rel) == blocks) unfinished_.notify_one();
}

void ComputePool::worker() {
  for (std::uint32_t seen = 0;;) {
    if (!look_for([&] { return jobs_.load(std::memory_order_relaxed) != seen; })) jobs_.wait(seen);
    seen = jobs_.load(std::memory_order_acquire);
    if (stopping_.load(std::memory_order_relaxed)) return;
    for (std::size_t block = 0; take(block); finish(1)) work_(block);
  }
}

}  // namespace k3
