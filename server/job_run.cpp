#include "server/job_run.hpp"

#include <boost/asio/post.hpp>

namespace k3::server {
namespace {

// A fast model and a fast client could keep one session running for ever: after so many events the others get a turn.
constexpr unsigned kEventsPerTurn = 32;

}  // namespace

JobRun::JobRun(App& app, ClientWait& wait, std::shared_ptr<SharedRun> run)
    : app_(app), wait_(wait), run_(std::move(run)), listener_{.wake = wait.waker()} {
  run_->attach(listener_);
  withdraw_.emplace(wait.stop_token(),
                    [this] { leave(wait_.client_gone() ? SharedRun::Leaving::gone : SharedRun::Leaving::stopped); });
}

JobRun::~JobRun() { leave(served_ ? SharedRun::Leaving::served : SharedRun::Leaving::gone); }

asio::awaitable<std::optional<Event>> JobRun::next(Clock::time_point until) {
  if (++taken_ % kEventsPerTurn == 0) co_await asio::post(*app_.io, kAsTuple);
  for (;;) {
    if (wait_.client_gone()) co_return std::nullopt;
    if (wait_.aborted()) {
      Event failed = Failed{fail(ErrorCode::cancelled, "the server is shutting down")};
      co_return failed;
    }
    std::optional<Event> event = run_->next(listener_);
    if (event) co_return event;
    if (app_.now() >= until) co_return std::nullopt;
    co_await wait_.sleep(until);
  }
}

}  // namespace k3::server
