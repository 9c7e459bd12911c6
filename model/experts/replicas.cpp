#include "model/experts/replicas.hpp"

#include <algorithm>
#include <cassert>

namespace k3::experts {

namespace {
// What was observed weighs as much as so many bytes: some ten experts of the released size.
constexpr double memory_bytes = 256e6;
constexpr double forgiven = 1.0 / 1024;  // of what speaks against a drive, each time that it is passed over
constexpr double largest_penalty = 1024;
}  // namespace

Replicas::Replicas(std::vector<std::uint32_t> first, std::vector<int> fds, std::vector<std::uint32_t> drives, Clock clock)
    : first_(std::move(first)), drive_of_(std::move(drives)), fds_(std::move(fds)), clock_(clock) {
  const auto most = std::max_element(drive_of_.begin(), drive_of_.end());
  drives_.resize(most == drive_of_.end() ? 0 : *most + std::size_t{1});
}

double Replicas::cost_of(const Drive& drive) const {
  if (drive.cost > 0) return drive.cost * drive.penalty;
  double best = 0;
  for (const Drive& other : drives_) {
    if (other.cost > 0 && (best == 0 || other.cost < best)) best = other.cost;
  }
  return (best > 0 ? best : 1) * drive.penalty;
}

void Replicas::choose(std::uint32_t file, Completion& read, std::uint32_t& tried) {
  assert(!all_tried(file, tried));
  const std::uint32_t begin = first_[file], end = first_[file + 1];
  std::uint32_t best = end;
  double soonest = 0;
  for (std::uint32_t copy = begin; copy < end; ++copy) {
    if ((tried >> (copy - begin) & 1U) != 0) continue;
    const Drive& drive = drives_[drive_of_[copy]];
    const double done = static_cast<double>(drive.on_their_way + read.length) * cost_of(drive);
    if (best != end && done >= soonest) continue;
    best = copy;
    soonest = done;
  }
  for (std::uint32_t copy = begin; copy < end; ++copy) {
    Drive& passed = drives_[drive_of_[copy]];
    if (passed.on_their_way != 0 || drive_of_[copy] == drive_of_[best]) continue;
    passed.cost *= 1 - forgiven;
    passed.penalty = std::max(1.0, passed.penalty * (1 - forgiven));
  }
  tried |= 1U << (best - begin);
  read.file = best;
  read.fd = fds_[best];
}

bool Replicas::all_tried(std::uint32_t file, std::uint32_t tried) const {
  const std::uint32_t copies = first_[file + 1] - first_[file];
  return tried == static_cast<std::uint32_t>((std::uint64_t{1} << copies) - 1);
}

void Replicas::begin(const Completion& read) {
  if (drives_.size() < 2) return;
  Drive& drive = drives_[drive_of_[read.file]];
  if (drive.on_their_way == 0) drive.since = clock_();
  drive.on_their_way += read.length;
}

void Replicas::end(const Completion& read) {
  if (drives_.size() < 2) return;
  Drive& drive = drives_[drive_of_[read.file]];
  drive.on_their_way -= read.length;
  if (read.result <= 0) return;
  drive.penalty = std::max(1.0, drive.penalty / 2);
  // Reads that arrive together share the time: the first takes all of it, those after it none, and the mean is right.
  const Time now = clock_();
  const double seconds = std::chrono::duration<double>(now - drive.since).count(), bytes = read.result;
  drive.since = now;
  if (drive.cost == 0) {
    drive.cost = seconds / bytes;
  } else {
    drive.cost += (seconds / bytes - drive.cost) * bytes / (bytes + memory_bytes);
  }
}

void Replicas::distrust(const Completion& read) {
  Drive& drive = drives_[drive_of_[read.file]];
  drive.penalty = std::min(largest_penalty, 2 * drive.penalty);
}

}  // namespace k3::experts
