// Long work off the network thread: reading, rendering and tokenising a body of 30 MB takes seconds, during which streams, health
// checks and everybody else's requests must go on. One worker does one piece of work at a time, because one such body in pieces
// can take a gigabyte of memory.
#pragma once

#include <boost/asio/thread_pool.hpp>
#include <map>

#include "server/client_wait.hpp"

namespace k3::server {

class Workshop {
 public:
  enum class Outcome {
    done,
    stopped,  // the client left, or the server is going down, before the work was done
    full,     // not even begun: what waits already holds too many bytes
  };

  // Both outlive the workshop. All members are for the server's thread.
  Workshop(asio::io_context& io, const Limits& limits);
  // Waits for what is under way.
  ~Workshop();
  Workshop(const Workshop&) = delete;
  Workshop& operator=(const Workshop&) = delete;

  // Runs `work`, which goes through `bytes` of somebody's body, on the worker and comes back. When stopped, the work may go on for
  // a moment without anybody waiting for it: it must own what it touches, and should look at the wait's stop token. It must not
  // throw.
  asio::awaitable<Outcome> run(ClientWait& wait, std::size_t bytes, std::function<void()> work);
  // How long until what waits now has been done, going by the work of late.
  std::chrono::seconds backlog() const;

 private:
  struct Errand {
    std::size_t bytes = 0;
    std::function<void()> work{};
    std::stop_token stop{};
    std::function<void()> wake{};
    bool done = false;
    Clock::duration took{};
  };
  void begin_next();
  void finish(const std::shared_ptr<Errand>& errand);
  void forget_stopped();

  asio::io_context& io_;
  const Limits& limits_;
  // The small ones first, so that whoever sends large bodies waits longest; equal ones in the order they came.
  std::multimap<std::size_t, std::shared_ptr<Errand>> waiting_{};
  std::size_t bytes_ = 0;  // of all errands not yet done
  bool busy_ = false;
  double seconds_per_byte_ = 1e-7;
  asio::thread_pool worker_{1};
};

}  // namespace k3::server
