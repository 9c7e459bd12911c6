// An answer as server-sent events.
#include "server/answer_parts.hpp"
#include "server/run_board.hpp"
#include "server/sse.hpp"

namespace k3::server {
namespace {

// Reports on the queue and the prompt are for people to watch.
constexpr std::chrono::seconds kReportInterval{1};

class AnswerStream {
 public:
  explicit AnswerStream(AnswerParts& parts) : parts_(parts), stream_(parts.exchange, parts.app, interval(parts.plan)) {}

  asio::awaitable<void> run(Headers headers);

 private:
  static std::chrono::milliseconds interval(const AnswerPlan& plan) {
    return plan.ping_style == PingStyle::off ? std::chrono::milliseconds(0) : plan.ping_interval;
  }
  asio::awaitable<bool> open(Headers headers);
  asio::awaitable<bool> sign_of_life();
  asio::awaitable<bool> take(Event event);
  asio::awaitable<bool> report();
  asio::awaitable<void> end();
  asio::awaitable<bool> send(Frames frames);
  bool report_due(bool first, bool last);
  ProgressReport state() const;

  AnswerParts& parts_;
  SseStream stream_;
  std::optional<Clock::time_point> reported_;
};

asio::awaitable<void> AnswerStream::run(Headers headers) {
  bool alive = co_await open(std::move(headers));
  while (alive && !parts_.progress.over()) {
    std::optional<Event> event = co_await parts_.run.next(stream_.ping_due());
    if (parts_.run.client_gone()) break;
    if (event) {
      alive = co_await take(std::move(*event));
    } else if (parts_.app.now() >= stream_.ping_due()) {
      ++parts_.app.metrics.pings;
      alive = co_await sign_of_life();
    }
  }
  if (!alive || !parts_.progress.over()) {
    note_gone(parts_);
  } else {
    co_await end();
  }
}

// Each in its own write; false once the client is gone.
asio::awaitable<bool> AnswerStream::send(Frames frames) {
  for (const std::string& frame : frames) {
    const bool written = co_await stream_.write(frame);
    if (!written) co_return false;
  }
  co_return true;
}

asio::awaitable<bool> AnswerStream::open(Headers headers) {
  if (!co_await stream_.open(std::move(headers))) co_return false;
  Frames frames = parts_.shape.opening(parts_.plan.ping_style);
  const bool alive = co_await send(std::move(frames));
  co_return alive;
}

asio::awaitable<bool> AnswerStream::sign_of_life() {
  const bool waiting = parts_.progress.waiting() && parts_.progress.queued();
  bool alive = false;
  if (waiting && parts_.plan.progress) {
    alive = co_await report();
    co_return alive;
  }
  const ProgressReport now = state();
  Frames frames = parts_.shape.sign_of_life(parts_.plan.ping_style, waiting ? &now : nullptr);
  alive = co_await send(std::move(frames));
  co_return alive;
}

asio::awaitable<bool> AnswerStream::take(Event event) {
  const bool waiting = parts_.progress.waiting();
  const bool queued = std::holds_alternative<Queued>(event);
  const bool prefill = std::holds_alternative<Prefill>(event);
  const auto deltas = parts_.progress.take(std::move(event), parts_.run);
  const auto tokens = spoken(parts_);
  Frames frames = parts_.shape.more(deltas, tokens);
  if (!co_await send(std::move(frames))) co_return false;
  if (!parts_.plan.progress || !(queued || prefill)) co_return true;
  const auto& done = parts_.progress.prefill();
  if (!report_due(!reported_ || (prefill && waiting), prefill && done->done >= done->total)) co_return true;
  const bool written = co_await report();
  co_return written;
}

bool AnswerStream::report_due(bool first, bool last) { return first || last || parts_.app.now() - *reported_ >= kReportInterval; }

ProgressReport AnswerStream::state() const {
  const Progress& progress = parts_.progress;
  ProgressReport report{.prefill = {.done = 0, .total = progress.total(), .cached = 0},
                        .milliseconds = static_cast<std::int64_t>(progress.elapsed() * 1000)};
  if (progress.prefill()) {
    report.prefill = *progress.prefill();
  } else if (progress.queued()) {
    report.position = progress.queued()->position;
    report.turn_in_s = parts_.app.runs->seconds_until_turn(parts_.run.run());
  }
  return report;
}

asio::awaitable<bool> AnswerStream::report() {
  reported_ = parts_.app.now();
  Frames frames = parts_.shape.progress(state());
  const bool written = co_await send(std::move(frames));
  co_return written;
}

asio::awaitable<void> AnswerStream::end() {
  const auto& failure = parts_.progress.failure();
  Frames frames;
  if (!failure) {
    note_end(parts_);
    frames = parts_.shape.end(end_of(parts_));
  } else {
    note_failure(parts_);
    // A job that nobody withdrew but the ticket: the stream had fallen too far behind.
    if (failure->code == ErrorCode::cancelled && !parts_.app.draining) ++parts_.app.metrics.backpressure_drops;
    parts_.exchange.abandon();
    frames = parts_.shape.failure(failure_error(*failure, parts_.app));
  }
  if (!co_await send(std::move(frames))) co_return;
  if (co_await parts_.exchange.end_stream()) parts_.run.delivered();
}

}  // namespace

asio::awaitable<void> stream_answer(AnswerParts& parts, Headers headers) {
  AnswerStream stream(parts);
  co_await stream.run(std::move(headers));
}

}  // namespace k3::server
