// The events of one run as one client has taken them, summed up: what has been said so far, whether it is over, and how it went.
#pragma once

#include "model/generation/answer.hpp"
#include "server/answer_run.hpp"
#include "server/answer_shape.hpp"
#include "server/job_run.hpp"
#include "server/metrics.hpp"

namespace k3::server {

class Progress {
 public:
  // `joined`: what has been said by now comes all at once, so its times say nothing. `app` outlives this.
  // `request`: its id, for GET /slots.
  Progress(App& app, AnswerPlan& plan, bool joined, const std::string& request);

  void client_left() { stage_.client_left(); }

  // Deltas for the client.
  std::vector<text::Delta> take(Event event, JobRun& run);
  std::vector<generation::SpokenToken> spoken() { return answer_.spoken(); }

  bool over() const { return over_; }
  const std::optional<Error>& failure() const { return failure_; }
  const generation::Answer& answer() const { return answer_; }
  // Until the prompt is begun: how many jobs are before this one.
  const std::optional<Queued>& queued() const { return queued_; }
  const std::optional<Prefill>& prefill() const { return prefill_; }
  bool waiting() const { return !prefill_ && !first_token_; }
  double elapsed() const;
  std::size_t total() const { return total_; }  // of the prompt, as Prefill counts
  Usage usage() const;

 private:
  void begin();
  void note_token(const Token& token, Clock::time_point now);
  void note_channel(bool thought, const std::vector<text::Delta>& deltas);
  std::vector<text::Delta> take_token(Token token, JobRun& run);

  App& app_;
  const bool joined_;
  InStage stage_;
  generation::Answer answer_;
  const std::size_t total_, prompt_tokens_;
  std::size_t cached_ = 0;
  std::optional<Queued> queued_;
  std::optional<Prefill> prefill_;
  std::optional<Error> failure_;
  Timings timings_;
  Channel channel_ = Channel::response;
  const Clock::time_point submitted_;
  Clock::time_point started_{}, last_token_{};
  std::optional<Clock::time_point> first_token_;
  bool over_ = false;
};

}  // namespace k3::server
