// Plain numbers about what the model has done. The model thread counts; everyone else gets copies.
#pragma once

#include <cstdint>

namespace k3 {

// What was taken from the drive, and how long the arithmetic stood still for it: of a whole process, or of one job.
struct DriveUse {
  std::uint64_t expert_bytes = 0, trunk_bytes = 0;
  std::uint64_t expert_hits = 0, expert_misses = 0;  // experts used that were in memory, and that had to be read
  double expert_wait_s = 0, trunk_wait_s = 0;

  std::uint64_t bytes() const { return expert_bytes + trunk_bytes; }
  // Of the experts used, the share that was in memory; 1 where none was used, for then none was missing.
  double expert_hit_rate() const {
    const std::uint64_t used = expert_hits + expert_misses;
    return used == 0 ? 1 : static_cast<double>(expert_hits) / static_cast<double>(used);
  }
  friend DriveUse operator-(const DriveUse& now, const DriveUse& before) {
    return {now.expert_bytes - before.expert_bytes,   now.trunk_bytes - before.trunk_bytes,
            now.expert_hits - before.expert_hits,     now.expert_misses - before.expert_misses,
            now.expert_wait_s - before.expert_wait_s, now.trunk_wait_s - before.trunk_wait_s};
  }
};

// Since the model was loaded; nothing here ever falls.
struct WorkDone {
  DriveUse drive;
  std::uint64_t expert_reads = 0;                             // one an expert where its tensors lie together
  std::uint64_t expert_errors = 0;                            // experts that could not be read
  std::uint64_t expert_parked = 0;                            // whose readers left before they came
  double expert_reading_s = 0;                                // with at least one of them on its way
  std::uint64_t expert_guesses = 0, expert_guesses_used = 0;  // read before the router spoke, and of those used
  std::uint64_t predicted_choices = 0, foreseen_choices = 0;  // experts chosen where there was a guess, and of those guessed
  std::uint64_t trunk_reads = 0;
  double serial_s = 0, overlapped_s = 0;                                          // of steps: beside what they waited, all of them
  std::uint64_t prompt_tokens = 0, cached_prompt_tokens = 0, decoded_tokens = 0;  // computed, found computed, drawn
};

}  // namespace k3
