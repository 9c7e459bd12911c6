#include "server/sse.hpp"

namespace k3::server {

std::string sse_data(std::string_view json) {
  std::string event = "data: ";
  event.append(json).append("\n\n");
  return event;
}

std::string sse_event(std::string_view name, std::string_view json) {
  std::string event = "event: ";
  event.append(name).append("\n").append(sse_data(json));
  return event;
}

std::string sse_comment(std::string_view text) {
  std::string line = ": ";
  line.append(text).append("\n\n");
  return line;
}

asio::awaitable<bool> SseStream::open(Headers headers) {
  Response head{.content_type = "text/event-stream", .headers = std::move(headers)};
  head.headers.emplace_back("Cache-Control", "no-cache, no-transform");
  head.headers.emplace_back("X-Accel-Buffering", "no");  // nginx would hold the whole stream back
  const bool written = co_await exchange_.open_stream(head);
  co_return written;
}

asio::awaitable<bool> SseStream::write(std::string_view frame) {
  last_write_ = app_.now();
  const bool written = co_await exchange_.chunk(frame);
  co_return written;
}

Clock::time_point SseStream::ping_due() const { return interval_.count() > 0 ? last_write_ + interval_ : Clock::time_point::max(); }

}  // namespace k3::server
