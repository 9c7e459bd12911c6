// Server-sent events: one event is one HTTP chunk and one write, because naive clients take one read for one event.
#pragma once

#include "server/http_io.hpp"
#include "server/job_run.hpp"

namespace k3::server {

class SseStream {
 public:
  // `interval`: how long the stream may be silent; zero: as long as it likes. The exchange outlives the stream.
  SseStream(Exchange& exchange, std::chrono::milliseconds interval) : exchange_(exchange), interval_(interval) {}

  // All return false once the client is gone.
  asio::awaitable<bool> open(Headers headers);  // head and first comment
  asio::awaitable<bool> data(std::string_view json);
  asio::awaitable<bool> ping();  // a comment: every client ignores it, unlike an event without content
  asio::awaitable<bool> done();

  Clock::time_point ping_due() const;

 private:
  Exchange& exchange_;
  std::chrono::milliseconds interval_;
  Clock::time_point last_write_ = Clock::now();
};

}  // namespace k3::server
