// An answer as server-sent events.
#include <fmt/format.h>

#include "server/answer_parts.hpp"
#include "server/run_board.hpp"
#include "server/sse.hpp"

namespace k3::server {
namespace {

// Reports on the queue and the prompt are for people to watch.
constexpr std::chrono::seconds kReportInterval{1};
constexpr std::string_view kPing = "ping";

class AnswerStream {
 public:
  explicit AnswerStream(AnswerParts& parts) : parts_(parts), stream_(parts.exchange, parts.app, interval(parts.plan)) {}

  asio::awaitable<void> run(Headers headers);

 private:
  static std::chrono::milliseconds interval(const AnswerPlan& plan) {
    return plan.ping_style == PingStyle::off ? std::chrono::milliseconds(0) : plan.ping_interval;
  }
  asio::awaitable<bool> open(Headers headers);
  asio::awaitable<bool> open_message();
  asio::awaitable<bool> sign_of_life();
  asio::awaitable<bool> take(Event event);
  asio::awaitable<bool> send_deltas(std::vector<text::Delta> deltas);
  asio::awaitable<bool> report();
  asio::awaitable<void> end();
  asio::awaitable<bool> send_end();
  bool report_due(bool first, bool last);
  std::optional<double> turn_in() const { return parts_.app.runs->seconds_until_turn(parts_.run.run()); }

  AnswerParts& parts_;
  SseStream stream_;
  bool opened_ = false;     // the role is out
  std::size_t offset_ = 0;  // characters of a text completion that are out
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

// Some clients and proxies count the time to the first byte of the body, not of the head.
asio::awaitable<bool> AnswerStream::open(Headers headers) {
  if (!co_await stream_.open(std::move(headers))) co_return false;
  bool alive = false;
  if (parts_.plan.ping_style == PingStyle::comment) {
    alive = co_await stream_.comment(kPing);
  } else if (parts_.head.chat) {
    alive = co_await open_message();
  } else if (parts_.plan.ping_style == PingStyle::delta) {
    alive = co_await sign_of_life();
  } else {
    alive = true;
  }
  co_return alive;
}

// The role comes first, once; text completions have none.
asio::awaitable<bool> AnswerStream::open_message() {
  if (opened_ || !parts_.head.chat) co_return true;
  opened_ = true;
  const std::string chunk = role_chunk(parts_.head);
  const bool written = co_await stream_.data(chunk);
  co_return written;
}

asio::awaitable<bool> AnswerStream::sign_of_life() {
  const bool waiting = parts_.progress.waiting() && parts_.progress.queued();
  bool alive = false;
  if (waiting && parts_.plan.progress) {
    alive = co_await report();
  } else if (parts_.plan.ping_style == PingStyle::delta) {
    const std::string chunk = empty_chunk(parts_.head);
    alive = co_await stream_.data(chunk);
  } else if (waiting) {
    std::string text = fmt::format("queued position={}", parts_.progress.queued()->position);
    if (const auto seconds = turn_in()) text += fmt::format(" turn_in={:.0f}s", *seconds);
    alive = co_await stream_.comment(text);
  } else {
    alive = co_await stream_.comment(kPing);
  }
  co_return alive;
}

asio::awaitable<bool> AnswerStream::take(Event event) {
  const bool waiting = parts_.progress.waiting();
  const bool queued = std::holds_alternative<Queued>(event);
  const bool prefill = std::holds_alternative<Prefill>(event);
  auto deltas = parts_.progress.take(std::move(event), parts_.run);
  if (!co_await send_deltas(std::move(deltas))) co_return false;
  if (!parts_.plan.progress || !(queued || prefill)) co_return true;
  const auto& done = parts_.progress.prefill();
  if (!report_due(!reported_ || (prefill && waiting), prefill && done->done >= done->total)) co_return true;
  const bool written = co_await report();
  co_return written;
}

bool AnswerStream::report_due(bool first, bool last) { return first || last || parts_.app.now() - *reported_ >= kReportInterval; }

// The chunks of `deltas`, each in its own write.
asio::awaitable<bool> AnswerStream::send_deltas(std::vector<text::Delta> deltas) {
  std::vector<generation::SpokenToken> tokens;
  if (parts_.head.tokenizer != nullptr) tokens = parts_.progress.spoken();
  for (const auto& delta : deltas) {
    std::optional<std::string> chunk;
    const auto* content = std::get_if<text::ContentDelta>(&delta);
    if (content != nullptr && !tokens.empty()) {
      chunk = content_chunk(parts_.head, content->text, tokens, offset_);
      tokens.clear();
    } else {
      chunk = delta_chunk(parts_.head, delta);
    }
    if (!chunk) continue;
    if (!co_await open_message()) co_return false;
    if (!co_await stream_.data(*chunk)) co_return false;
  }
  // A stop string has settled how much of a token belongs to text that is out already.
  if (tokens.empty()) co_return true;
  const std::string chunk = content_chunk(parts_.head, "", tokens, offset_);
  const bool written = co_await stream_.data(chunk);
  co_return written;
}

asio::awaitable<bool> AnswerStream::report() {
  if (!co_await open_message()) co_return false;
  reported_ = parts_.app.now();
  const Progress& progress = parts_.progress;
  ProgressReport report{.prefill = {.done = 0, .total = progress.total(), .cached = 0},
                        .milliseconds = static_cast<std::int64_t>(progress.elapsed() * 1000)};
  if (progress.prefill()) {
    report.prefill = *progress.prefill();
  } else if (progress.queued()) {
    report.position = progress.queued()->position;
    report.turn_in_s = turn_in();
  }
  const std::string chunk = progress_chunk(parts_.head, report);
  const bool written = co_await stream_.data(chunk);
  co_return written;
}

asio::awaitable<void> AnswerStream::end() {
  if (!parts_.progress.failure()) {
    note_end(parts_);
    if (co_await send_end()) parts_.run.delivered();
    co_return;
  }
  note_failure(parts_);
  // A job that nobody withdrew but the ticket: the stream had fallen too far behind.
  if (parts_.progress.failure()->code == ErrorCode::cancelled && !parts_.app.draining) ++parts_.app.metrics.backpressure_drops;
  // Without [DONE] and without a finish reason nobody takes this for an answer.
  parts_.exchange.abandon();
  const std::string error = error_json(failure_error(*parts_.progress.failure(), parts_.app));
  if (!co_await stream_.data(error)) co_return;
  if (co_await parts_.exchange.end_stream()) parts_.run.delivered();
}

asio::awaitable<bool> AnswerStream::send_end() {
  if (!co_await open_message()) co_return false;
  const Usage usage = parts_.progress.usage();
  const std::string finish = finish_chunk(parts_.head, parts_.progress.answer().finish_reason(), usage);
  if (!co_await stream_.data(finish)) co_return false;
  if (parts_.plan.include_usage) {
    const std::string chunk = usage_chunk(parts_.head, usage);
    if (!co_await stream_.data(chunk)) co_return false;
  }
  const bool written = co_await stream_.done();
  co_return written;
}

}  // namespace

asio::awaitable<void> stream_answer(AnswerParts& parts, Headers headers) {
  AnswerStream stream(parts);
  co_await stream.run(std::move(headers));
}

}  // namespace k3::server
