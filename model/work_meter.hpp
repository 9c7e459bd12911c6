// The model thread's account of its work: gathered from those who count, posted where others may read it.
#pragma once

#include "model/actor_mailbox.hpp"
#include "model/experts/expert_stream.hpp"
#include "model/forward.hpp"

namespace k3 {

// Used on the model thread only. What it is made of must outlive it.
class WorkMeter {
 public:
  WorkMeter(const Forward& forward, const experts::ExpertStream& experts, Mailbox& mailbox)
      : forward_(forward), experts_(experts), mailbox_(mailbox) {}

  void prompt(std::size_t tokens) { tokens_.prompt_tokens += tokens; }
  void cached(std::size_t tokens) { tokens_.cached_prompt_tokens += tokens; }
  void decoded() { ++tokens_.decoded_tokens; }

  DriveUse drive() const { return gather().drive; }
  void post() const { mailbox_.report(gather()); }

 private:
  WorkDone gather() const;

  const Forward& forward_;
  const experts::ExpertStream& experts_;
  Mailbox& mailbox_;
  WorkDone tokens_;  // what nobody else counts
};

}  // namespace k3
