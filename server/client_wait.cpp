#include "server/client_wait.hpp"

#include <algorithm>
#include <boost/asio/post.hpp>

namespace k3::server {
namespace {

// A hang-up behind pipelined bytes is only seen by asking (Connection::hung_up).
constexpr std::chrono::seconds kRecheck{5};

}  // namespace

ClientWait::ClientWait(App& app, Exchange& exchange) : app_(app), exchange_(exchange), waker_(std::make_shared<Waker>(*app.io)) {
  app_.waits.insert(this);
  exchange_.connection().watch([this] { leave(); });
}

ClientWait::~ClientWait() {
  stop_.request_stop();
  exchange_.connection().unwatch();
  app_.waits.erase(this);
  if (app_.on_wait_ended) app_.on_wait_ended();
}

std::function<void()> ClientWait::waker() const {
  // Who is to wake may do so longer than this server lives, so it owns the io_context and only borrows the timer.
  return [io = app_.io, weak = std::weak_ptr<Waker>(waker_)] {
    const auto waker = weak.lock();
    if (!waker || waker->posted.exchange(true)) return;
    asio::post(*io, [weak] {
      const auto here = weak.lock();
      if (!here) return;
      here->posted = false;
      here->timer.cancel();
    });
  };
}

asio::awaitable<void> ClientWait::sleep(Clock::time_point until) {
  if (stopped()) co_return;
  const auto now = app_.now();
  waker_->timer.expires_after(until < now + kRecheck ? until - now : Clock::duration(kRecheck));
  const auto waited = co_await waker_->timer.async_wait(kAsTuple);
  static_cast<void>(waited);
  if (!gone_ && exchange_.connection().hung_up()) leave();
}

void ClientWait::leave() {
  gone_ = true;
  stop();
}

void ClientWait::abort() {
  aborted_ = true;
  stop();
}

void ClientWait::look() { waker_->timer.cancel(); }

void ClientWait::stop() {
  stop_.request_stop();
  waker_->timer.cancel();
}

}  // namespace k3::server
