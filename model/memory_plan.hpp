// One budget for the whole process, divided before anything large is taken: states and activations first, then the trunk, then
// experts. What does not fit is read from the drive when it is needed; the answer is the same, only later.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "model/checkpoint/config.hpp"
#include "model/checkpoint/residency.hpp"
#include "model/error.hpp"
#include "model/sequence/latent_format.hpp"

namespace k3 {

// Conversations kept alive, if there is room: enough for one and a side request (a title, a check) between its turns.
inline constexpr std::size_t usual_live_sequences = 2;

struct MemoryRequest {
  std::uint64_t budget = 0;  // of the process; 0: unlimited
  std::uint64_t taken = 0;   // that it holds already
  checkpoint::TrunkSizes trunk;
  std::uint64_t trunk_slot_bytes = 0;                                  // of one block of the largest matrix that can be streamed
  std::uint64_t expert_bytes = 0, experts = 0, experts_per_token = 0;  // of the slot of one; all; of a layer
  std::optional<std::uint64_t> expert_budget;                          // --expert-gb
  bool mapped = false;                                                 // the trunk: what has no room is the system's to read again
  std::size_t context = 0, chunk = 0;  // tokens of a conversation; rows of a step, at most (0: see most_chunk)
  std::size_t sequences = usual_live_sequences;
  LatentFormat latents = LatentFormat::float32;
};

struct MemoryPlan {
  std::size_t chunk = 0, live_sequences = 0;  // as many as there is room for, the running one included
  std::uint64_t working = 0;                  // their states, activations of a step, and a fixed rest
  std::uint64_t trunk = 0;                    // kept in memory, or left room for in the page cache
  checkpoint::Residency residency;
  std::uint64_t streamed = 0;  // of the trunk, read anew for each step
  std::uint64_t window = 0;    // for reading that ahead
  std::uint64_t paged = 0;     // of a mapped trunk, more than there is room for
  std::uint64_t experts = 0;   // for slots; less than one expert still gets one slot

  std::string describe() const;  // one line
};

// A prompt's rows share what is read for them, and 512 rows already ask for nearly all experts: so twice the rows are twice the
// speed, as long as memory for their activations (1.4 MB a row at the released size) is no more than a tenth of the whole.
inline constexpr std::size_t most_chunk = 4096;

// States of `sequences` conversations at `context` tokens, activations of `chunk` rows, and a fixed rest.
std::uint64_t working_memory(const checkpoint::Config& config, std::size_t context, std::size_t chunk, LatentFormat latents,
                             std::size_t sequences);

// An error when not even the least fits, which says what it is made of.
Result<MemoryPlan> plan_memory(const checkpoint::Config& config, const MemoryRequest& request);

}  // namespace k3
