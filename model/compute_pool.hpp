// Threads for one product at a time. The split is by output blocks, and a block's bits do not depend on who computes it.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <mutex>
#include <thread>
#include <vector>

#include "model/function_ref.hpp"

namespace k3 {

class ComputePool {
 public:
  // `threads` in all, the caller's included; 0: usable_cores().
  explicit ComputePool(unsigned threads);
  ~ComputePool();
  ComputePool(const ComputePool&) = delete;
  ComputePool& operator=(const ComputePool&) = delete;

  // Of the calling thread, below threads(): which of a work's scratch memories is its own. 0 outside of a pool's threads.
  static unsigned thread_index();
  unsigned threads() const { return static_cast<unsigned>(workers_.size()) + 1; }

  // Calls work(block) for each block in [0, blocks), on all threads, and returns when all are done. Before each block it takes, the
  // calling thread asks `proceed()`; once that says false no further block is begun and the call returns false. Without `proceed`
  // it never stops. One call at a time; the work must not throw.
  bool run(std::size_t blocks, FunctionRef<void(std::size_t)> work, FunctionRef<bool()> proceed = {});

 private:
  void worker(const std::stop_token& stop);
  void take_blocks(bool is_caller);

  std::mutex mutex_;
  std::condition_variable_any start_;
  std::condition_variable done_;
  std::uint64_t generation_ = 0;
  std::size_t busy_ = 0;
  // The job in hand: written under the mutex before the generation moves, read by workers after they saw it move.
  FunctionRef<void(std::size_t)> work_;
  FunctionRef<bool()> proceed_;
  std::size_t blocks_ = 0;
  std::atomic<std::size_t> next_{0};
  std::atomic<bool> halted_{false};
  std::vector<std::jthread> workers_;
};

// Physical cores this process may use: of the affinity mask, lowered by a cgroup v2 CPU quota. Two hyperthreads of a core share the
// units that products keep busy; a second one only takes cache away.
unsigned usable_cores();
// Cores among `cpus`, as told by files like cpu0/topology/thread_siblings_list below `topology`. A CPU without one counts as a
// core.
unsigned count_cores(const std::vector<unsigned>& cpus, const std::filesystem::path& topology);

}  // namespace k3
