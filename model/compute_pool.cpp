#include "model/compute_pool.hpp"

#include <sched.h>

#include <algorithm>
#include <fstream>
#include <set>
#include <string>

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
}

unsigned ComputePool::thread_index() { return index_of_this_thread; }

ComputePool::ComputePool(unsigned threads) {
  if (threads == 0) threads = usable_cores();
  for (unsigned i = 1; i < threads; ++i) {
    workers_.emplace_back([this, i](const std::stop_token& stop) {
      index_of_this_thread = i;
      worker(stop);
    });
  }
}

ComputePool::~ComputePool() = default;  // each jthread asks its worker to stop, which wakes it, and joins

bool ComputePool::run(std::size_t blocks, FunctionRef<void(std::size_t)> work, FunctionRef<bool()> proceed) {
  if (blocks == 0) return true;
  if (workers_.empty() || blocks == 1) {
    for (std::size_t i = 0; i < blocks; ++i) {
      if (proceed && !proceed()) return false;
      work(i);
    }
    return true;
  }
  {
    const std::lock_guard lock(mutex_);
    work_ = work;
    proceed_ = proceed;
    blocks_ = blocks;
    next_.store(0, std::memory_order_relaxed);
    halted_.store(false, std::memory_order_relaxed);
    busy_ = workers_.size();
    ++generation_;
  }
  start_.notify_all();
  take_blocks(true);
  std::unique_lock lock(mutex_);
  done_.wait(lock, [this] { return busy_ == 0; });
  return !halted_.load(std::memory_order_relaxed);
}

void ComputePool::take_blocks(bool is_caller) {
  for (;;) {
    // Asked on the calling thread only: what proceed() counts and reads belongs to the model thread.
    if (is_caller && proceed_ && !proceed_()) halted_.store(true, std::memory_order_relaxed);
    if (halted_.load(std::memory_order_relaxed)) return;
    const std::size_t block = next_.fetch_add(1, std::memory_order_relaxed);
    if (block >= blocks_) return;
    work_(block);
  }
}

void ComputePool::worker(const std::stop_token& stop) {
  std::uint64_t seen = 0;
  for (;;) {
    {
      std::unique_lock lock(mutex_);
      if (!start_.wait(lock, stop, [&] { return generation_ != seen; })) return;
      seen = generation_;
    }
    take_blocks(false);
    const std::lock_guard lock(mutex_);
    if (--busy_ == 0) done_.notify_one();
  }
}

}  // namespace k3
