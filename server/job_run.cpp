#include "server/job_run.hpp"

#include <algorithm>
#include <boost/asio/post.hpp>

namespace k3::server {
namespace {

// A hang-up behind pipelined bytes is only seen by asking (Connection::hung_up).
constexpr std::chrono::seconds kRecheck{5};
// A fast model and a fast client could keep one session running for ever: after so many events the others get a turn.
constexpr unsigned kEventsPerTurn = 32;

}  // namespace

JobRun::JobRun(App& app, Exchange& exchange)
    : app_(app),
      exchange_(exchange),
      waker_(std::make_shared<Waker>(*app.io)),
      ticket_(std::make_shared<Ticket>(app.options.limits.ticket_events)) {
  // The model may hold the ticket longer than this server lives, so its wake-up owns the io_context and only borrows the timer.
  ticket_->on_event([io = app.io, weak = std::weak_ptr<Waker>(waker_)] {
    const auto waker = weak.lock();
    if (!waker || waker->posted.exchange(true)) return;
    asio::post(*io, [weak] {
      const auto here = weak.lock();
      if (!here) return;
      here->posted = false;
      here->timer.cancel();
    });
  });
  app_.runs.insert(this);
  exchange_.connection().watch([this] { leave(); });
}

JobRun::~JobRun() {
  ticket_->cancel();
  exchange_.connection().unwatch();
  app_.runs.erase(this);
  if (app_.on_run_ended) app_.on_run_ended();
}

void JobRun::leave() {
  gone_ = true;
  ticket_->cancel();
  waker_->timer.cancel();
}

void JobRun::abort() {
  aborted_ = true;
  ticket_->cancel();
  waker_->timer.cancel();
}

Result<void> JobRun::submit(Job job) { return app_.model->submit(std::move(job), ticket_); }

asio::awaitable<std::optional<Event>> JobRun::next(Clock::time_point until) {
  if (++taken_ % kEventsPerTurn == 0) co_await asio::post(*app_.io, kAsTuple);
  for (;;) {
    if (gone_) co_return std::nullopt;
    if (aborted_) {
      Event failed = Failed{fail(ErrorCode::cancelled, "the server is shutting down")};
      co_return failed;
    }
    std::optional<Event> event = ticket_->pop();
    if (event) co_return event;
    const auto now = Clock::now();
    if (now >= until) co_return std::nullopt;
    waker_->timer.expires_at(std::min(until, now + kRecheck));
    const auto waited = co_await waker_->timer.async_wait(kAsTuple);
    static_cast<void>(waited);
    if (!gone_ && exchange_.connection().hung_up()) leave();
  }
}

}  // namespace k3::server
