#include "server/sse.hpp"

namespace k3::server {

asio::awaitable<bool> SseStream::open(Headers headers) {
  Response head{.content_type = "text/event-stream", .headers = std::move(headers)};
  head.headers.emplace_back("Cache-Control", "no-cache, no-transform");
  head.headers.emplace_back("X-Accel-Buffering", "no");  // nginx would hold the whole stream back
  const bool written = co_await exchange_.open_stream(head);
  co_return written;
}

asio::awaitable<bool> SseStream::data(std::string_view json) {
  std::string event = "data: ";
  event.append(json).append("\n\n");
  last_write_ = app_.now();
  const bool written = co_await exchange_.chunk(event);
  co_return written;
}

asio::awaitable<bool> SseStream::comment(std::string_view text) {
  std::string line = ": ";
  line.append(text).append("\n\n");
  last_write_ = app_.now();
  const bool written = co_await exchange_.chunk(line);
  co_return written;
}

asio::awaitable<bool> SseStream::done() {
  constexpr std::string_view end = "[DONE]";
  const bool written = co_await data(end);
  if (!written) co_return false;
  const bool ended = co_await exchange_.end_stream();
  co_return ended;
}

Clock::time_point SseStream::ping_due() const { return interval_.count() > 0 ? last_write_ + interval_ : Clock::time_point::max(); }

}  // namespace k3::server
