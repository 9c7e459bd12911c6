#include <algorithm>
#include <chrono>

#include "tests/catch.hpp"
#include "tests/server/harness.hpp"

namespace k3::test {
namespace {

// Only a broken test ever waits this long.
constexpr std::chrono::seconds kPatience{30};

}  // namespace

ScriptedModel::ScriptedModel() : thread_([this] { run(); }) {}

ScriptedModel::~ScriptedModel() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

Result<void> ScriptedModel::submit(Job job, std::shared_ptr<Ticket> ticket) {
  const std::lock_guard lock(mutex_);
  if (queue_.size() >= queue_capacity) return fail(ErrorCode::overloaded, "the queue is full");
  last_ = job;
  last_ticket_ = ticket;
  ++submitted_;
  ticket->push(Queued{queue_.size()});
  queue_.push_back({std::move(job), std::move(ticket), script_});
  changed_.notify_all();
  return {};
}

void ScriptedModel::script(Script script) {
  const std::lock_guard lock(mutex_);
  script_ = std::move(script);
}

void ScriptedModel::release() {
  const std::lock_guard lock(mutex_);
  ++releases_;
  changed_.notify_all();
}

void ScriptedModel::await(std::size_t& counter, std::size_t count) {
  std::unique_lock lock(mutex_);
  REQUIRE(changed_.wait_for(lock, kPatience, [&] { return counter >= count; }));
}
void ScriptedModel::wait_submitted(std::size_t count) { await(submitted_, count); }
void ScriptedModel::wait_paused(std::size_t count) { await(paused_, count); }
void ScriptedModel::wait_cancelled(std::size_t count) { await(cancelled_, count); }
void ScriptedModel::wait_ended(std::size_t count) { await(ended_, count); }

ModelStatus ScriptedModel::status() const {
  const std::lock_guard lock(mutex_);
  return {0, queue_.size(), work_};
}

void ScriptedModel::work_done(const WorkDone& work) {
  const std::lock_guard lock(mutex_);
  work_ = work;
}

std::shared_ptr<Ticket> ScriptedModel::last_ticket() {
  const std::lock_guard lock(mutex_);
  return last_ticket_;
}

Job ScriptedModel::last_job() {
  const std::lock_guard lock(mutex_);
  return last_;
}

std::vector<std::int32_t> ScriptedModel::scripted_ids() {
  const std::lock_guard lock(mutex_);
  return script_.ids;
}

std::size_t ScriptedModel::jobs_started() {
  const std::lock_guard lock(mutex_);
  return started_;
}

void ScriptedModel::count(std::size_t& counter) {
  const std::lock_guard lock(mutex_);
  ++counter;
  changed_.notify_all();
}

bool ScriptedModel::pause(Ticket& ticket) {
  std::stop_callback wake(ticket.stop_token(), [this] { changed_.notify_all(); });
  std::unique_lock lock(mutex_);
  ++paused_;
  changed_.notify_all();
  const std::size_t before = releases_;
  // The callback above does not take the mutex, so its notification can fall between the check and the wait: look again now and
  // then.
  while (releases_ == before && !stopping_ && !ticket.stop_token().stop_requested())
    changed_.wait_for(lock, std::chrono::milliseconds(5));
  return !ticket.stop_token().stop_requested();
}

void ScriptedModel::run() {
  for (;;) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return stopping_ || !queue_.empty(); });
    if (stopping_) return;
    if (queue_.front().script.pause == Phase::queued) {
      // Stays in the queue meanwhile: a queued job is one that has not been taken.
      const auto ticket = queue_.front().ticket;
      lock.unlock();
      pause(*ticket);
      lock.lock();
    }
    Pending pending = std::move(queue_.front());
    queue_.pop_front();
    lock.unlock();
    play(pending);
  }
}

void ScriptedModel::play(Pending& pending) {
  Ticket& ticket = *pending.ticket;
  const Script& script = pending.script;
  const auto cancelled = [&] { return ticket.stop_token().stop_requested(); };
  const auto give_up = [&] {
    count(cancelled_);
    ticket.push(Failed{fail(ErrorCode::cancelled, "cancelled")});
  };
  if (cancelled()) return give_up();
  count(started_);
  const std::size_t prompt = pending.job.prompt.size();
  ticket.push(Prefill{0, prompt, 0});
  for (std::size_t i = 1; i <= script.reports; ++i) {
    if (script.pause == Phase::prefill && !pause(ticket)) return give_up();
    ticket.push(Prefill{prompt * i / script.reports, prompt, 0});
  }
  std::size_t sent = 0;
  FinishReason reason = FinishReason::length;
  while (sent < pending.job.max_tokens && (script.endless || sent < script.ids.size())) {
    const bool once = script.pause == Phase::decode && sent == script.pause_after;
    const bool each = script.pause_each && sent >= script.pause_after;
    if ((once || each) && !pause(ticket)) return give_up();
    if (cancelled()) return give_up();
    if (script.fail_at == sent) {
      ticket.push(Failed{script.error});
      return count(ended_);
    }
    const std::int32_t id = script.ids[sent % script.ids.size()];
    DriveUse used = script.prefill;
    if (sent > 0) used.expert_bytes += script.decode.expert_bytes;
    Token token{id, used};
    if (const auto count = pending.job.logprobs) {
      token.logprobs = std::make_shared<const TokenLogprobs>(scripted_logprobs(id, *count));
    }
    ticket.push(std::move(token));
    ++sent;
    const auto& stops = pending.job.stop_ids;
    if (std::find(stops.begin(), stops.end(), id) != stops.end()) {
      reason = FinishReason::stop;
      break;
    }
  }
  ticket.push(Finished{reason, prompt, 0, sent, {0.25, 0.5, 1.0, script.prefill, script.decode}});
  count(ended_);
}

TokenLogprobs scripted_logprobs(std::int32_t id, unsigned count) {
  TokenLogprobs result{.own = -0.25F * static_cast<float>(id % 8), .top = {}};
  for (unsigned i = 0; i < count; ++i) result.top.emplace_back((id + static_cast<int>(i)) % 1794, -0.5F * static_cast<float>(i));
  return result;
}

}  // namespace k3::test
