#include "server/answer_progress.hpp"

#include <algorithm>

namespace k3::server {
namespace {

double seconds_between(Clock::time_point from, Clock::time_point to) { return std::chrono::duration<double>(to - from).count(); }

}  // namespace

Progress::Progress(App& app, AnswerPlan& plan, bool joined, const std::string& request)
    : app_(app),
      joined_(joined),
      stage_(app.metrics, request, plan.prompt_tokens - plan.unreported),
      answer_(*app.tokenizer, std::move(plan.answer)),
      total_(plan.prompt_tokens),
      prompt_tokens_(plan.prompt_tokens - plan.unreported),
      submitted_(app.now()) {}

std::vector<text::Delta> Progress::take(Event event, JobRun& run) {
  if (auto* token = std::get_if<Token>(&event)) return take_token(std::move(*token), run);
  if (auto* queued = std::get_if<Queued>(&event)) {
    queued_ = *queued;
    stage_.position = queued->position;
  } else if (auto* prefill = std::get_if<Prefill>(&event)) {
    if (!prefill_) begin();
    prefill_ = *prefill;
    stage_.prompt_done = prefill->done;
    stage_.prompt_cached = prefill->cached;
  } else if (auto* finished = std::get_if<Finished>(&event)) {
    over_ = true;
    cached_ = finished->cached_tokens;
    timings_ = finished->timings;
    return answer_.finish(finished->reason);
  } else if (auto* failed = std::get_if<Failed>(&event)) {
    over_ = true;
    failure_ = std::move(failed->error);
  }
  return {};
}

double Progress::elapsed() const { return seconds_between(submitted_, app_.now()); }

Usage Progress::usage() const {
  return {.prompt = prompt_tokens_,
          .completion = answer_.output_tokens(),
          .cached = std::min(cached_, prompt_tokens_),
          .reasoning = answer_.reasoning_tokens(),
          .timings = timings_};
}

void Progress::begin() {
  started_ = app_.now();
  stage_.enter(Stage::prefill);
  if (!joined_) app_.metrics.queue_wait.observe(seconds_between(submitted_, started_));
}

void Progress::note_token(const Token& token, Clock::time_point now) {
  if (first_token_) {
    if (!joined_) app_.metrics.between_tokens.observe(seconds_between(last_token_, now));
  } else {
    first_token_ = now;
    timings_.prefill = token.used;
    stage_.enter(Stage::decode);
    if (!joined_) app_.metrics.first_token.observe(seconds_between(submitted_, now));
  }
  last_token_ = now;
}

// A token that is all structure belongs to what was open before it. One that another client has had already is not written again.
void Progress::note_channel(bool thought, const std::vector<text::Delta>& deltas) {
  for (const auto& delta : deltas) {
    if (std::holds_alternative<text::ReasoningDelta>(delta)) continue;
    channel_ = std::holds_alternative<text::ContentDelta>(delta) ? Channel::response : Channel::tool;
  }
  stage_.wrote(thought ? Channel::think : channel_, !joined_);
}

std::vector<text::Delta> Progress::take_token(Token token, JobRun& run) {
  const auto now = app_.now();
  note_token(token, now);
  const bool thinking = answer_.thinking();
  auto deltas = answer_.push(token.id, std::move(token.logprobs));
  note_channel(thinking, deltas);
  if (!answer_.stopped()) return deltas;
  // A stop string: the model need not go on, and what it says to that is not waited for. The times are then our own.
  run.stop();
  over_ = true;
  cached_ = prefill_ ? prefill_->cached : 0;
  const auto started = prefill_ ? started_ : *first_token_;
  timings_ = {.queued_s = seconds_between(submitted_, started),
              .prefill_s = seconds_between(started, *first_token_),
              .decode_s = seconds_between(*first_token_, now),
              .prefill = timings_.prefill,
              .decode = token.used - timings_.prefill};
  auto rest = answer_.finish(FinishReason::stop);
  std::move(rest.begin(), rest.end(), std::back_inserter(deltas));
  return deltas;
}

}  // namespace k3::server
