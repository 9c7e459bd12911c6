#include "model/actor_job.hpp"

#include <algorithm>

#include "model/generation/logprobs.hpp"

namespace k3 {

using boost::asio::awaitable;

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

JobRun::JobRun(const JobSurroundings& around, const MailboxEntry& entry)
    : around_(around),
      job_(entry.job),
      ticket_(*entry.ticket),
      stop_(entry.ticket->stop_token()),
      submitted_(entry.submitted),
      started_(around.clock()),
      reported_(started_),
      first_token_(started_),
      sequence_(around.sequences.take(job_.prompt)),
      cached_(sequence_.committed()),
      before_(around.work.drive()),
      machine_(
          {job_.prompt.size(), cached_, around.model.chunk, output_limit(job_, around.model.info.context_limit), job_.stop_ids}),
      sampler_(job_.sampling, job_.prompt, around.model.info.vocabulary, *around.model.kernels) {
  around.work.cached(cached_);
  // A step may take minutes, and who watches the drive wants to see it at work.
  hooks_.after_layer = [this](std::size_t, std::span<const float>) { around_.work.post(); };
}

awaitable<void> JobRun::run() {
  report_prefill(true);
  Machine::Action action = go_on() ? machine_.step(Machine::Begin{}) : machine_.step(Machine::Cancelled{});
  while (!machine_.ended()) {
    if (const auto* chunk = std::get_if<Machine::RunChunk>(&action)) {
      const Machine::RunChunk what = *chunk;
      action = co_await run_chunk(what);
    } else {
      const Machine::RunToken what = std::get<Machine::RunToken>(action);
      action = co_await run_token(what);
    }
  }
  end(action);
}

awaitable<JobRun::Machine::Action> JobRun::run_chunk(Machine::RunChunk chunk) {
  const std::span<const std::int32_t> ids = std::span(job_.prompt).subspan(chunk.first, chunk.count);
  const bool wants_logits = chunk.wants_logits;
  const auto logits = co_await run_rows(ids, wants_logits);
  if (logits.has_error()) co_return failed(logits.error());
  around_.work.prompt(ids.size());
  report_prefill(wants_logits);
  if (wants_logits) {
    first_token_ = around_.clock();
    prefill_ = used();
  }
  if (!go_on()) co_return machine_.step(Machine::Cancelled{});
  if (wants_logits) co_return draw(*logits);
  co_return machine_.step(Machine::ChunkDone{});
}

awaitable<JobRun::Machine::Action> JobRun::run_token(Machine::RunToken token) {
  const std::int32_t id = token.id;
  const std::span<const std::int32_t> ids(&id, 1);
  const auto logits = co_await run_rows(ids, true);
  if (logits.has_error()) co_return failed(logits.error());
  if (!go_on()) co_return machine_.step(Machine::Cancelled{});
  co_return draw(*logits);
}

// One step, committed if every row came through. The sequence is unchanged on error.
awaitable<Result<std::span<const float>>> JobRun::run_rows(std::span<const std::int32_t> ids, bool wants_logits) {
  rows_.clear();
  for (const std::int32_t id : ids) rows_.push_back({&sequence_, id, false});
  rows_.back().wants_logits = wants_logits;
  const std::span<const Row> rows = rows_;
  const Result<StepResult> step = co_await around_.forward.step(rows, stop_, hooks_);
  if (step.has_error()) co_return step.error();
  for (const std::optional<Error>& error : step->row_errors) {
    if (error) co_return *error;
  }
  sequence_.commit(ids);
  co_return step->logits;
}

JobRun::Machine::Action JobRun::draw(std::span<const float> logits) {
  const auto id = sampler_.sample(logits);
  if (id.has_error()) return failed(id.error());
  sampler_.accept(*id);
  around_.work.decoded();
  around_.work.post();  // before the event: who has the token finds it counted
  Token token{*id, used()};
  if (job_.logprobs) token.logprobs = generation::token_logprobs(logits, *id, *job_.logprobs, *around_.model.kernels);
  ticket_.push(std::move(token));
  return machine_.step(Machine::Sampled{*id});
}

JobRun::Machine::Action JobRun::failed(const Error& error) {
  if (error.code == ErrorCode::cancelled) return machine_.step(Machine::Cancelled{});
  return machine_.step(Machine::Failure{error});
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
  ticket_.push(Prefill{sequence_.committed(), job_.prompt.size(), cached_});
}

void JobRun::end(const Machine::Action& action) {
  if (const auto* error = std::get_if<Machine::Fail>(&action)) {
    abandon(error->error);
    return;
  }
  const auto now = around_.clock();
  const Timings timings{seconds(started_ - submitted_), seconds(first_token_ - started_), seconds(now - first_token_), prefill_,
                        used() - prefill_};
  around_.work.post();
  ended_ = true;
  ticket_.push(Finished{std::get<Machine::Finish>(action).reason, job_.prompt.size(), cached_, machine_.output_tokens(), timings});
}

void JobRun::abandon(Error error) {
  if (ended_) return;
  around_.work.post();
  ended_ = true;
  ticket_.push(Failed{std::move(error)});
}

}  // namespace k3
