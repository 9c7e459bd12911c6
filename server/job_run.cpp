#include "server/job_run.hpp"

#include <boost/asio/post.hpp>

namespace k3::server {
namespace {

// A fast model and a fast client could keep one session running for ever: after so many events the others get a turn.
constexpr unsigned kEventsPerTurn = 32;

}  // namespace

JobRun::JobRun(App& app, ClientWait& wait)
    : app_(app),
      wait_(wait),
      ticket_(std::make_shared<Ticket>(app.options.limits.ticket_events)),
      withdraw_(wait.stop_token(), [ticket = ticket_] { ticket->cancel(); }) {
  ticket_->on_event(wait_.waker());
}

JobRun::~JobRun() { ticket_->cancel(); }

Result<void> JobRun::submit(Job job) { return app_.model->submit(std::move(job), ticket_); }

asio::awaitable<std::optional<Event>> JobRun::next(Clock::time_point until) {
  if (++taken_ % kEventsPerTurn == 0) co_await asio::post(*app_.io, kAsTuple);
  for (;;) {
    if (wait_.client_gone()) co_return std::nullopt;
    if (wait_.aborted()) {
      Event failed = Failed{fail(ErrorCode::cancelled, "the server is shutting down")};
      co_return failed;
    }
    std::optional<Event> event = ticket_->pop();
    if (event) co_return event;
    if (Clock::now() >= until) co_return std::nullopt;
    co_await wait_.sleep(until);
  }
}

}  // namespace k3::server
