// Server-sent events: one event is one HTTP chunk and one write, because naive clients take one read for one event.
#pragma once

#include "server/http_io.hpp"
#include "server/job_run.hpp"

namespace k3::server {

// Events as they go over the wire.
std::string sse_data(std::string_view json);
std::string sse_event(std::string_view name, std::string_view json);
std::string sse_comment(std::string_view text);  // one line, which clients ignore

class SseStream {
 public:
  // `interval`: how long the stream may be silent; zero: as long as it likes. The exchange outlives the stream.
  // The times are those of `app`, which outlives it too.
  SseStream(Exchange& exchange, const App& app, std::chrono::milliseconds interval)
      : exchange_(exchange), app_(app), interval_(interval), last_write_(app.now()) {}

  // All return false once the client is gone.
  asio::awaitable<bool> open(Headers headers);          // the head alone
  asio::awaitable<bool> write(std::string_view frame);  // one of those below

  Clock::time_point ping_due() const;

 private:
  Exchange& exchange_;
  const App& app_;
  std::chrono::milliseconds interval_;
  Clock::time_point last_write_;
};

}  // namespace k3::server
