// What one generation does next: a plain state machine without I/O. Whoever runs it reports what happened and does what it answers,
// so every path, cancels included, is tested without a model.
//
//   queued ── Begin ──► prefill ── Prefilled ──► prefill … ── Sampled ──► decode ── Sampled ──► decode … ──► finished
//      └──────────────────┴────────────── Cancelled, Failed ──────────────────┴──────────────────────► cancelled, failed
#pragma once

#include <variant>

#include "model/ticket.hpp"

namespace k3::generation {

struct GenerationPlan {
  std::size_t prompt_tokens = 0;  // at least 1
  std::size_t cached_tokens = 0;  // of them, already in the sequence; fewer than prompt_tokens
  std::size_t max_tokens = 1;     // of output; at least 1
  std::vector<std::int32_t> stop_ids;
};

class GenerationMachine {
 public:
  // --- what happened ---
  struct Begin {};  // the job's turn has come
  struct Prefilled {
    std::size_t count = 0;
  };  // so many more prompt rows are committed, and some are left
  struct Sampled {
    std::int32_t id = 0;
  };                    // a step with logits is committed, the prompt's last rows or a token; this was drawn from it
  struct Cancelled {};  // in any state; after the end it changes nothing
  struct Failure {
    Error error;
  };  // likewise
  using Event = std::variant<Begin, Prefilled, Sampled, Cancelled, Failure>;

  // --- what to do ---
  struct RunPrompt {
    std::size_t first = 0, count = 0;
  };  // prompt rows [first, first + count), from the first on as many as suits; the last of them with logits
  struct RunToken {
    std::int32_t id = 0;
  };  // one row, with logits
  struct Finish {
    FinishReason reason = FinishReason::stop;
  };
  struct Fail {
    Error error;
  };
  using Action = std::variant<RunPrompt, RunToken, Finish, Fail>;

  enum class State { queued, prefill, decode, finished, cancelled, failed };

  explicit GenerationMachine(GenerationPlan plan);

  // An event that the state cannot meet is a programmer's error and ends the generation as failed (internal). After the end every
  // event gets the same answer again.
  Action step(const Event& event);

  State state() const { return state_; }
  bool ended() const { return state_ == State::finished || state_ == State::cancelled || state_ == State::failed; }
  std::size_t prefilled() const { return prefilled_; }          // prompt tokens committed, the cached ones included
  std::size_t output_tokens() const { return output_tokens_; }  // sampled so far

 private:
  Action run_prompt() const { return RunPrompt{prefilled_, plan_.prompt_tokens - prefilled_}; }
  Action sampled(std::int32_t id);
  Action finish(FinishReason reason);
  Action stop_with(State state, Error error);

  GenerationPlan plan_;
  State state_ = State::queued;
  std::size_t prefilled_ = 0, output_tokens_ = 0;
  Action last_ = Finish{};
};

}  // namespace k3::generation
