// Threads for one product at a time. The split is by output blocks, and a block's bits do not depend on who computes it.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <filesystem>
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
  void worker();
  bool take(std::size_t& block);
  void finish(std::uint32_t blocks);

  // The job in hand: written before `left_`, read only by who has taken one of its blocks, for then it cannot end.
  FunctionRef<void(std::size_t)> work_;
  std::size_t blocks_ = 0;
  // Which job (high half) and how many of its blocks nobody has taken (low half). A thread that wakes up late finds nothing to take
  // or a whole block of the next job: nobody waits for threads, only for blocks.
  std::atomic<std::uint64_t> left_{0};
  std::atomic<std::uint32_t> unfinished_{0};
  std::atomic<std::uint32_t> jobs_{0};  // moves with each job, and at the end
  std::atomic<bool> stopping_{false};
  std::vector<std::jthread> workers_;
};

// Physical cores this process may use: of the affinity mask, lowered by a cgroup v2 CPU quota. Two hyperthreads of a core share the
// units that products keep busy; a second one only takes cache away.
unsigned usable_cores();
// Cores among `cpus`, as told by files like cpu0/topology/thread_siblings_list below `topology`. A CPU without one counts as a
// core.
unsigned count_cores(const std::vector<unsigned>& cpus, const std::filesystem::path& topology);

}  // namespace k3
