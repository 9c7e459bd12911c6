// Which copy of a file a read goes to, where a file lies on several drives: the one that promises to be done first. No I/O here.
//
// A drive's cost is the time it takes for a byte, as observed while reads are on their way to it. A drive that was not seen at work
// yet counts as being as good as the best; one that fails counts as twice as slow; and one that is passed over counts as a little
// faster each time, so that a drive that was slow or failing for a while is tried again.
#pragma once

#include <chrono>
#include <cstdint>
#include <vector>

#include "model/experts/reader.hpp"

namespace k3::experts {

class Replicas {
 public:
  using Time = std::chrono::steady_clock::time_point;
  using Clock = Time (*)();

  Replicas() = default;
  // The copies of file F are numbers first[F] up to first[F + 1] of `fds` and `drives`.
  Replicas(std::vector<std::uint32_t> first, std::vector<int> fds, std::vector<std::uint32_t> drives, Clock clock);

  // Aims `read` (its length is set) at a copy that is not in `tried`, and adds that copy. There must be one.
  void choose(std::uint32_t file, Completion& read, std::uint32_t& tried);
  bool all_tried(std::uint32_t file, std::uint32_t tried) const;

  void begin(const Completion& read);     // submitted
  void end(const Completion& read);       // reaped, whatever the result
  void distrust(const Completion& read);  // that copy is not good, or cannot be read

 private:
  struct Drive {
    double cost = 0;     // seconds a byte; 0: not seen at work yet
    double penalty = 1;  // the cost is taken as so many times as high
    std::uint64_t on_their_way = 0;
    Time since;  // of that, what arrives is counted from here
  };

  double cost_of(const Drive& drive) const;

  std::vector<std::uint32_t> first_{0}, drive_of_;
  std::vector<int> fds_;
  std::vector<Drive> drives_;
  Clock clock_ = nullptr;
};

}  // namespace k3::experts
