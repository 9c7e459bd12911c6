#include "model/work_meter.hpp"

#include <algorithm>

namespace k3 {

WorkDone WorkMeter::gather() const {
  const auto seconds = [](std::chrono::nanoseconds time) { return std::chrono::duration<double>(time).count(); };
  const experts::StreamCounters experts = experts_.counters();
  const trunk::TrunkCounters trunk = forward_.trunk_reads();
  layers::LayerTimes times;
  for (const layers::LayerTimes& layer : forward_.times().layers()) times += layer;
  WorkDone work = tokens_;
  work.drive.expert_bytes = experts.bytes;
  work.drive.trunk_bytes = trunk.bytes;
  work.drive.expert_hits = experts.hits;
  work.drive.expert_misses = experts.misses;
  work.drive.trunk_wait_s = seconds(trunk.waiting);
  // A step's waiting is for both, and the trunk knows its share; by another clock where a test gives the step one.
  work.drive.expert_wait_s = std::max(0.0, seconds(times.waiting - trunk.waiting));
  work.expert_reads = experts.reads;
  work.expert_errors = experts.errors;
  work.expert_parked = experts.parked;
  work.expert_reading_s = seconds(experts.reading);
  work.expert_guesses = experts.guesses;
  work.expert_guesses_used = experts.guesses_used;
  work.predicted_choices = forward_.predicted().chosen;
  work.foreseen_choices = forward_.predicted().foreseen;
  work.trunk_reads = trunk.reads;
  work.serial_s = seconds(times.serial);
  work.overlapped_s = seconds(times.overlapped);
  return work;
}

}  // namespace k3
