// One job of the model on behalf of one session: whoever ends first, the other learns of it. Destroying it withdraws the job.
#pragma once

#include <optional>

#include "server/client_wait.hpp"

namespace k3::server {

class JobRun {
 public:
  // Both outlive the run.
  JobRun(App& app, ClientWait& wait);
  ~JobRun();
  JobRun(const JobRun&) = delete;
  JobRun& operator=(const JobRun&) = delete;

  Result<void> submit(Job job);
  // The next event; nullopt when `until` has passed (time for a ping) or the client has gone. When the server is going down it is
  // a failure, whatever the model still does.
  asio::awaitable<std::optional<Event>> next(Clock::time_point until);

  bool client_gone() const { return wait_.client_gone(); }
  void cancel() { ticket_->cancel(); }

 private:
  App& app_;
  ClientWait& wait_;
  std::shared_ptr<Ticket> ticket_;
  // At once, and not when the session next looks: it may be stuck in a write to the client that has gone.
  std::stop_callback<std::function<void()>> withdraw_;
  unsigned taken_ = 0;
};

}  // namespace k3::server
