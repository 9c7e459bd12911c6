// An answer as one object. It may take hours, and clients give up on a connection that says nothing for some minutes, so after a
// while it is kept alive: see Keepalive.
#include "server/answer_parts.hpp"

namespace k3::server {
namespace {

class WholeAnswer {
 public:
  WholeAnswer(AnswerParts& parts, Headers headers)
      : parts_(parts), response_{.headers = std::move(headers)}, due_(parts.app.now() + parts.app.options.hold) {}

  asio::awaitable<void> run();

 private:
  asio::awaitable<bool> sign_of_life();
  asio::awaitable<void> end();
  asio::awaitable<void> end_committed();
  asio::awaitable<void> end_held();
  Clock::time_point due() const { return parts_.plan.keepalive == Keepalive::off ? Clock::time_point::max() : due_; }

  AnswerParts& parts_;
  Response response_;
  Clock::time_point due_;
  bool committed_ = false;  // the 200 is out
};

asio::awaitable<void> WholeAnswer::run() {
  bool alive = true;
  while (alive && !parts_.progress.over()) {
    std::optional<Event> event = co_await parts_.run.next(due());
    if (parts_.run.client_gone()) break;
    if (event) parts_.progress.take(std::move(*event), parts_.run);
    if (!parts_.progress.over() && parts_.app.now() >= due()) alive = co_await sign_of_life();
  }
  if (!alive || !parts_.progress.over()) {
    note_gone(parts_);
  } else {
    co_await end();
  }
}

asio::awaitable<bool> WholeAnswer::sign_of_life() {
  due_ = parts_.app.now() + parts_.app.options.limits.keepalive;
  ++parts_.app.metrics.pings;
  bool alive = true;
  if (parts_.plan.keepalive == Keepalive::interim) {
    alive = co_await parts_.exchange.interim();
    co_return alive;
  }
  if (!committed_) {
    committed_ = true;
    // A proxy that gathers the spaces, or packs them, would keep them from those they are for.
    response_.headers.emplace_back("Cache-Control", "no-cache, no-transform");
    response_.headers.emplace_back("X-Accel-Buffering", "no");
    alive = co_await parts_.exchange.open_stream(response_);
  }
  // Space before a JSON document means nothing.
  if (!alive) co_return false;
  constexpr std::string_view space = " ";
  alive = co_await parts_.exchange.chunk(space);
  co_return alive;
}

asio::awaitable<void> WholeAnswer::end() {
  if (parts_.progress.failure()) {
    note_failure(parts_);
  } else {
    note_end(parts_);
    const auto tokens = spoken(parts_);
    response_.body = parts_.shape.whole(end_of(parts_), tokens);
  }
  if (committed_) {
    co_await end_committed();
  } else {
    co_await end_held();
  }
}

asio::awaitable<void> WholeAnswer::end_committed() {
  if (parts_.progress.failure()) {
    // An error object behind a 200 would be taken for an answer. A body that ends before its end is taken for none.
    parts_.exchange.abandon();
    parts_.run.delivered();
    co_return;
  }
  const std::string_view body = response_.body;
  const bool written = co_await parts_.exchange.chunk(body);
  if (!written) co_return;
  const bool ended = co_await parts_.exchange.end_stream();
  if (ended) parts_.run.delivered();
}

asio::awaitable<void> WholeAnswer::end_held() {
  if (parts_.progress.failure()) response_ = error_response(failure_error(*parts_.progress.failure(), parts_.app));
  co_await parts_.exchange.respond(response_);
  if (!parts_.exchange.connection().broken()) parts_.run.delivered();
}

}  // namespace

asio::awaitable<void> collect_answer(AnswerParts& parts, Headers headers) {
  WholeAnswer answer(parts, std::move(headers));
  co_await answer.run();
}

}  // namespace k3::server
