// The memory plan: how much the expert slots may take once everything else has its share.
#pragma once

#include <cstdint>

#include "model/checkpoint/config.hpp"
#include "model/sequence/latent_format.hpp"

namespace k3 {

// Sequences kept alive, the running one included: enough for a conversation and a side request (a title, a check) between its
// turns.
inline constexpr std::size_t live_sequences = 2;

// Bytes this process may still take: MemAvailable, lowered by what the cgroup (and each of its ancestors) leaves. 0: cannot be
// told.
std::uint64_t available_memory();

// Sequence states, activations of a step and a fixed rest, at `context` tokens and `chunk` rows.
std::uint64_t working_memory(const checkpoint::Config& config, std::size_t context, std::size_t chunk, LatentFormat latents);

// What is left of `available` for experts; 0 when nothing is (the stream then makes one slot).
std::uint64_t expert_budget(std::uint64_t available, std::uint64_t trunk, std::uint64_t working);

}  // namespace k3
