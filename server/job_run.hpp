// One job of the model on behalf of one session: whoever ends first, the other learns of it. Destroying it withdraws the job.
#pragma once

#include <atomic>
#include <optional>

#include "server/app.hpp"

namespace k3::server {

using Clock = std::chrono::steady_clock;

class JobRun {
 public:
  // Starts watching the client. Both outlive the run.
  JobRun(App& app, Exchange& exchange);
  ~JobRun();
  JobRun(const JobRun&) = delete;
  JobRun& operator=(const JobRun&) = delete;

  Result<void> submit(Job job);
  // The next event; nullopt when `until` has passed (time for a ping) or the client has gone.
  asio::awaitable<std::optional<Event>> next(Clock::time_point until);

  bool client_gone() const { return gone_; }
  void cancel() { ticket_->cancel(); }
  // The server is going down: the next event is a failure, whatever the model still does.
  void abort();

 private:
  // A timer serves as condition variable: the model's thread posts a cancel() of it to the server's thread. At most one such
  // post is under way, however fast events come.
  struct Waker {
    explicit Waker(asio::io_context& io) : timer(io) {}
    asio::steady_timer timer;
    std::atomic<bool> posted = false;
  };
  void leave();

  App& app_;
  Exchange& exchange_;
  std::shared_ptr<Waker> waker_;
  std::shared_ptr<Ticket> ticket_;
  bool gone_ = false;
  bool aborted_ = false;
  unsigned taken_ = 0;
};

}  // namespace k3::server
