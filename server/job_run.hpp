// One client's part in a run of the model: whoever ends first, the other learns of it. Destroying it leaves the run.
#pragma once

#include <optional>

#include "server/client_wait.hpp"
#include "server/shared_run.hpp"

namespace k3::server {

class JobRun {
 public:
  // Both outlive this.
  JobRun(App& app, ClientWait& wait, std::shared_ptr<SharedRun> run);
  ~JobRun();
  JobRun(const JobRun&) = delete;
  JobRun& operator=(const JobRun&) = delete;

  // The next event; nullopt when `until` has passed (time for a ping) or the client has gone. When the server is going down it is
  // a failure, whatever the model still does.
  asio::awaitable<std::optional<Event>> next(Clock::time_point until);

  bool client_gone() const { return wait_.client_gone(); }
  const SharedRun& run() const { return *run_; }
  void stop() { run_->stop(); }
  // The client has all of it, so it will not ask again.
  void delivered() { served_ = true; }

 private:
  void leave(SharedRun::Leaving leaving) { run_->detach(listener_, leaving); }

  App& app_;
  ClientWait& wait_;
  const std::shared_ptr<SharedRun> run_;
  SharedRun::Listener listener_;
  // At once, and not when the session next looks: it may be stuck in a write to the client that has gone.
  std::optional<std::stop_callback<std::function<void()>>> withdraw_;
  unsigned taken_ = 0;
  bool served_ = false;
};

}  // namespace k3::server
