#include "server/workshop.hpp"

#include <algorithm>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/post.hpp>
#include <cmath>

namespace k3::server {

Workshop::Workshop(asio::io_context& io, const Limits& limits) : io_(io), limits_(limits) {}

Workshop::~Workshop() { worker_.join(); }

asio::awaitable<Workshop::Outcome> Workshop::run(ClientWait& wait, std::size_t bytes, std::function<void()> work) {
  if (bytes_ + bytes > limits_.workshop_bytes) co_return Outcome::full;
  const auto errand = std::make_shared<Errand>();
  errand->bytes = bytes;
  errand->work = std::move(work);
  errand->stop = wait.stop_token();
  errand->wake = wait.waker();
  bytes_ += bytes;
  waiting_.emplace(bytes, errand);
  begin_next();
  while (!errand->done && !wait.stopped()) co_await wait.sleep(Clock::time_point::max());
  forget_stopped();
  co_return wait.stopped() ? Outcome::stopped : Outcome::done;
}

std::chrono::seconds Workshop::backlog() const {
  const double seconds = std::ceil(static_cast<double>(bytes_) * seconds_per_byte_);
  return std::chrono::seconds(std::clamp<std::int64_t>(std::llround(seconds), 1, 600));
}

void Workshop::begin_next() {
  if (busy_ || waiting_.empty()) return;
  busy_ = true;
  const auto errand = waiting_.begin()->second;
  waiting_.erase(waiting_.begin());
  // The guard keeps the server's thread running until it has taken the work back, even if by then all sessions have ended.
  asio::post(worker_, [this, errand, guard = asio::make_work_guard(io_)] {
    const auto began = Clock::now();
    errand->work();
    errand->took = Clock::now() - began;
    asio::post(io_, [this, errand] { finish(errand); });
  });
}

void Workshop::finish(const std::shared_ptr<Errand>& errand) {
  busy_ = false;
  bytes_ -= errand->bytes;
  errand->done = true;
  errand->work = nullptr;
  if (!errand->stop.stop_requested()) {
    const double rate =
        std::chrono::duration<double>(errand->took).count() / static_cast<double>(std::max<std::size_t>(errand->bytes, 1));
    seconds_per_byte_ = 0.7 * seconds_per_byte_ + 0.3 * rate;
  }
  errand->wake();
  begin_next();
}

// Nobody waits for them any more, so their bodies need not be kept until their turn.
void Workshop::forget_stopped() {
  std::erase_if(waiting_, [this](const auto& entry) {
    if (!entry.second->stop.stop_requested()) return false;
    bytes_ -= entry.first;
    return true;
  });
}

}  // namespace k3::server
