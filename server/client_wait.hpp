// A session that waits for another thread, with an eye on its client and on the server's end: whichever comes first, it learns of
// it.
#pragma once

#include <atomic>
#include <functional>
#include <stop_token>

#include "server/app.hpp"
#include "server/http_io.hpp"

namespace k3::server {

class ClientWait {
 public:
  // Starts watching the client; a drain waits until this is destroyed. Both outlive the wait.
  ClientWait(App& app, Exchange& exchange);
  ~ClientWait();
  ClientWait(const ClientWait&) = delete;
  ClientWait& operator=(const ClientWait&) = delete;

  // Ends the next sleep(). Any thread, also after this is gone; however often it is called, one post at most is under way.
  std::function<void()> waker() const;
  // Until woken, until `until`, or until stopped() turns true. It may also return for no reason: look at what was waited for.
  asio::awaitable<void> sleep(Clock::time_point until);

  bool client_gone() const { return gone_; }
  // The server is going down: nothing is waited for any longer.
  bool aborted() const { return aborted_; }
  void abort();
  void look();  // ends the next sleep()
  bool stopped() const { return gone_ || aborted_; }
  // Requested when stopped() turns true, for whoever works for this client.
  std::stop_token stop_token() const { return stop_.get_token(); }

 private:
  // A timer serves as condition variable: others post a cancel() of it to the server's thread.
  struct Waker {
    explicit Waker(asio::io_context& io) : timer(io) {}
    asio::steady_timer timer;
    std::atomic<bool> posted = false;
  };
  void leave();
  void stop();

  App& app_;
  Exchange& exchange_;
  std::shared_ptr<Waker> waker_;
  std::stop_source stop_;
  bool gone_ = false;
  bool aborted_ = false;
};

}  // namespace k3::server
