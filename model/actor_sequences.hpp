// The conversations kept in memory, so that the next turn of one computes only what is new.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "model/actor_mailbox.hpp"
#include "model/sequence/sequence.hpp"

namespace k3 {

class LiveSequences {
 public:
  // Tells the mailbox, whenever that changes, which conversations are nobody's. All outlive this.
  LiveSequences(const checkpoint::Config& config, LatentFormat latents, std::size_t capacity, Mailbox& mailbox)
      : config_(config), latents_(latents), capacity_(capacity), mailbox_(mailbox) {}

  // The sequence with the most committed tokens among those `prompt` starts with, or a fresh one in the place of the least recently
  // used. The prompt must be longer than what is committed: logits come from computing a token, and recurrent state cannot step
  // back one. It is nobody else's while `Taken` lives. At most `capacity` may be taken.
  struct GiveBack {
    LiveSequences* owner = nullptr;
    void operator()(Sequence* sequence) const { owner->give_back(sequence); }
  };
  using Taken = std::unique_ptr<Sequence, GiveBack>;
  Taken take(std::span<const std::int32_t> prompt);

 private:
  void give_back(const Sequence* sequence);
  void post() const;
  const checkpoint::Config& config_;
  const LatentFormat latents_;
  const std::size_t capacity_;
  Mailbox& mailbox_;
  struct Live {
    std::unique_ptr<Sequence> sequence;
    bool taken = false;
  };
  std::vector<Live> live_;  // most recently used first
};

}  // namespace k3
