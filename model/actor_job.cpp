#include "model/actor_job.hpp"

#include <algorithm>

#include "model/generation/logprobs.hpp"

namespace k3 {

namespace {

// Between the first and the last chunk a progress event is for a human to watch.
constexpr std::chrono::seconds report_interval{1};

double seconds(std::chrono::steady_clock::duration time) { return std::chrono::duration<double>(time).count(); }

// submit() has seen to it that the prompt leaves room for at least one token.
std::size_t output_limit(const Job& job, std::size_t context_limit) {
  const std::size_t room = context_limit - job.prompt.size();
  return job.max_tokens == 0 ? room : std::min(job.max_tokens, room);
}

}  // namespace

JobRun::JobRun(const JobSurroundings& around, MailboxEntry entry)
    : around_(around),
      entry_(std::move(entry)),
      stop_(entry_.ticket->stop_token()),
      started_(around.clock()),
      reported_(started_),
      first_token_(started_),
      sequence_(around.sequences.take(entry_.job.prompt)),
      cached_(sequence_->committed()),
      before_(around.work.drive()),
      machine_({entry_.job.prompt.size(), cached_, output_limit(entry_.job, around.model.info.context_limit), entry_.job.stop_ids}),
      sampler_(entry_.job.sampling, entry_.job.prompt, around.model.info.vocabulary, *around.model.kernels),
      guide_(entry_.job.form),
      most_(output_limit(entry_.job, around.model.info.context_limit)) {
  around.work.cached(cached_);
}

void JobRun::begin() {
  report_prefill(true);
  act(go_on() ? machine_.step(Machine::Begin{}) : machine_.step(Machine::Cancelled{}));
}

std::span<const std::int32_t> JobRun::next_ids(std::size_t most) const {
  if (const auto* prompt = std::get_if<Machine::RunPrompt>(&action_)) {
    return std::span(entry_.job.prompt).subspan(prompt->first, std::min(most, prompt->count));
  }
  return {&std::get<Machine::RunToken>(action_).id, 1};
}

std::size_t JobRun::next_rows(std::size_t most, std::vector<Row>& rows) const {
  const std::span<const std::int32_t> ids = next_ids(most);
  for (const std::int32_t id : ids) rows.push_back({sequence_.get(), id, false});
  const auto* prompt = std::get_if<Machine::RunPrompt>(&action_);
  rows.back().wants_logits = prompt == nullptr || prompt->count == ids.size();
  return ids.size();
}

void JobRun::stepped(std::size_t count, std::span<const float> logits) {
  sequence_->commit(next_ids(count));
  if (std::holds_alternative<Machine::RunPrompt>(action_)) {
    around_.work.prompt(count);
    report_prefill(!logits.empty());
    if (!logits.empty()) {
      first_token_ = around_.clock();
      prefill_ = used();
    }
  }
  if (!go_on()) return act(machine_.step(Machine::Cancelled{}));
  act(logits.empty() ? machine_.step(Machine::Prefilled{count}) : draw(logits));
}

// Of a token that must come next the model is not asked, but its place in the answer counts as drawn.
Result<std::int32_t> JobRun::next_id(std::span<const float> logits) {
  if (entry_.ticket->thinking_unwanted()) guide_.end_thinking();
  if (const auto forced = guide_.forced()) return *forced;
  return sampler_.sample(logits, guide_.allowed(most_ - machine_.output_tokens()));
}

JobRun::Machine::Action JobRun::draw(std::span<const float> logits) {
  const auto id = next_id(logits);
  if (id.has_error()) return machine_.step(Machine::Failure{id.error()});
  if (!guide_.accept(*id))
    return machine_.step(Machine::Failure{fail(ErrorCode::internal, "a token that the answer's form forbids")});
  sampler_.accept(*id);
  around_.work.decoded();
  around_.work.post();  // before the event: who has the token finds it counted
  Token token{*id, used()};
  const Job& job = entry_.job;
  if (job.logprobs) token.logprobs = generation::token_logprobs(logits, *id, *job.logprobs, *around_.model.kernels);
  entry_.ticket->push(std::move(token));
  return machine_.step(Machine::Sampled{*id});
}

// The cancellation point before the first token and between tokens and chunks.
bool JobRun::go_on() {
  if (around_.on_point) around_.on_point();
  return !stop_.stop_requested();
}

void JobRun::report_prefill(bool always) {
  const auto now = around_.clock();
  if (!always && now - reported_ < report_interval) return;
  reported_ = now;
  entry_.ticket->push(Prefill{sequence_->committed(), entry_.job.prompt.size(), cached_});
}

void JobRun::act(Machine::Action action) {
  action_ = std::move(action);
  if (const auto* end = std::get_if<Machine::Finish>(&action_)) finish(end->reason);
  if (const auto* error = std::get_if<Machine::Fail>(&action_)) abandon(error->error);
}

void JobRun::finish(FinishReason reason) {
  const auto now = around_.clock();
  const Timings timings{seconds(started_ - entry_.submitted), seconds(first_token_ - started_), seconds(now - first_token_),
                        prefill_, used() - prefill_};
  around_.work.post();
  ended_ = true;
  entry_.ticket->push(Finished{reason, entry_.job.prompt.size(), cached_, machine_.output_tokens(), timings});
}

void JobRun::abandon(Error error) {
  if (ended_) return;
  around_.work.post();
  ended_ = true;
  entry_.ticket->push(Failed{std::move(error)});
}

}  // namespace k3
