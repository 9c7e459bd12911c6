#include "server/answer_run.hpp"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cmath>
#include <ctime>
#include <filesystem>

#include "server/job_run.hpp"
#include "server/openai_shapes.hpp"
#include "server/sse.hpp"

namespace k3::server {
namespace {

double seconds_between(Clock::time_point from, Clock::time_point to) { return std::chrono::duration<double>(to - from).count(); }

// The events of one job, summed up: what has been said so far, whether it is over, and how it went.
class Progress {
 public:
  Progress(App& app, AnswerPlan& plan)
      : metrics_(app.metrics),
        answer_(*app.tokenizer, std::move(plan.answer)),
        prompt_tokens_(plan.job.prompt.size() - plan.unreported) {}

  void admitted(const std::string& id) { stage_.emplace(metrics_, id, prompt_tokens_); }
  void client_left() { stage_->client_left(); }

  // Deltas for the client.
  std::vector<text::Delta> take(Event event, JobRun& run) {
    if (auto* token = std::get_if<Token>(&event)) return take_token(*token, run);
    if (auto* prefill = std::get_if<Prefill>(&event)) {
      if (!prefill_) begin();
      prefill_ = *prefill;
      stage_->prompt_done = prefill->done;
      stage_->prompt_cached = prefill->cached;
    } else if (const auto* queued = std::get_if<Queued>(&event)) {
      stage_->position = queued->position;
    } else if (auto* finished = std::get_if<Finished>(&event)) {
      over_ = true;
      cached_ = finished->cached_tokens;
      timings_ = finished->timings;
      return answer_.finish(finished->reason);
    } else if (auto* failed = std::get_if<Failed>(&event)) {
      over_ = true;
      failure_ = std::move(failed->error);
    }
    return {};
  }

  bool over() const { return over_; }
  const std::optional<Error>& failure() const { return failure_; }
  const generation::Answer& answer() const { return answer_; }
  const std::optional<Prefill>& prefill() const { return prefill_; }
  double elapsed() const { return seconds_between(submitted_, Clock::now()); }

  Usage usage() const {
    return {.prompt = prompt_tokens_,
            .completion = answer_.output_tokens(),
            .cached = std::min(cached_, prompt_tokens_),
            .reasoning = answer_.reasoning_tokens(),
            .timings = timings_};
  }

 private:
  void begin() {
    started_ = Clock::now();
    stage_->enter(Stage::prefill);
    metrics_.queue_wait.observe(seconds_between(submitted_, started_));
  }

  void note_token(const Token& token, Clock::time_point now) {
    if (first_token_) {
      metrics_.between_tokens.observe(seconds_between(last_token_, now));
    } else {
      first_token_ = now;
      timings_.prefill = token.used;
      stage_->enter(Stage::decode);
      metrics_.first_token.observe(seconds_between(submitted_, now));
    }
    last_token_ = now;
  }

  // A token that is all structure belongs to what was open before it.
  void note_channel(bool thought, const std::vector<text::Delta>& deltas) {
    for (const auto& delta : deltas) {
      if (std::holds_alternative<text::ReasoningDelta>(delta)) continue;
      channel_ = std::holds_alternative<text::ContentDelta>(delta) ? Channel::response : Channel::tool;
    }
    stage_->wrote(thought ? Channel::think : channel_);
  }

  std::vector<text::Delta> take_token(const Token& token, JobRun& run) {
    const auto now = Clock::now();
    note_token(token, now);
    const std::size_t thought = answer_.reasoning_tokens();
    auto deltas = answer_.push(token.id);
    note_channel(answer_.reasoning_tokens() > thought, deltas);
    if (!answer_.stopped()) return deltas;
    // A stop string: the model need not go on, and what it says to that is not waited for. The times are then our own.
    run.cancel();
    over_ = true;
    cached_ = prefill_ ? prefill_->cached : 0;
    const auto started = prefill_ ? started_ : *first_token_;
    timings_ = {.queued_s = seconds_between(submitted_, started),
                .prefill_s = seconds_between(started, *first_token_),
                .decode_s = seconds_between(*first_token_, now),
                .prefill = timings_.prefill,
                .decode = token.used - timings_.prefill};
    auto rest = answer_.finish(FinishReason::stop);
    std::move(rest.begin(), rest.end(), std::back_inserter(deltas));
    return deltas;
  }

  Metrics& metrics_;
  std::optional<InStage> stage_;
  generation::Answer answer_;
  std::size_t prompt_tokens_;
  std::size_t cached_ = 0;
  std::optional<Prefill> prefill_;
  std::optional<Error> failure_;
  Timings timings_;
  Channel channel_ = Channel::response;
  const Clock::time_point submitted_ = Clock::now();
  Clock::time_point started_{}, last_token_{};
  std::optional<Clock::time_point> first_token_;
  bool over_ = false;
};

// For whoever asked: the file by its name alone, because where it lies is the server's business. The log has the whole path.
std::string told(Error error) {
  error.file = std::filesystem::path(error.file).filename().string();
  return error.describe();
}

ApiError failure_error(const Error& error, const App& app) {
  if (error.code == ErrorCode::overloaded) {
    // One place becomes free when one answer ends, so about the length of a recent answer from now.
    const auto wait = std::clamp<std::int64_t>(std::llround(std::ceil(app.answer_seconds)), 2, 3600);
    return {.status = 429, .message = error.message, .code = "queue_full", .headers = {{"Retry-After", std::to_string(wait)}}};
  }
  if (error.code == ErrorCode::invalid_argument) {
    return {.status = 400, .message = error.describe(), .code = "context_length_exceeded"};
  }
  // Sending the same again would fail the same way, after the same time.
  const Headers no_retry{{"x-should-retry", "false"}};
  if (error.code == ErrorCode::cancelled) {
    const bool down = app.draining;
    return {.status = 503, .message = error.message, .code = down ? "shutting_down" : "cancelled", .headers = no_retry};
  }
  const unsigned status = error.code == ErrorCode::out_of_memory ? 503 : 500;
  return {.status = status, .message = told(error), .code = "engine_failed", .headers = no_retry};
}

void note_failure(Exchange& exchange, const Error& error) {
  exchange.outcome = "failed";
  spdlog::warn("{} answer failed: {}", exchange.request().id, error.describe());
}

void note_gone(Exchange& exchange, Progress& progress) {
  exchange.outcome = "gone";
  exchange.abandon();
  progress.client_left();
}

void note_end(Exchange& exchange, App& app, const Progress& progress) {
  const Usage usage = progress.usage();
  exchange.prompt_tokens = usage.prompt;
  exchange.output_tokens = usage.completion;
  exchange.outcome = progress.answer().finish_reason();
  app.metrics.whole_answer.observe(progress.elapsed());
  const double seconds = usage.timings.prefill_s + usage.timings.decode_s;
  app.answer_seconds = app.answer_seconds > 0 ? 0.7 * app.answer_seconds + 0.3 * seconds : seconds;
}

// The role comes first, once; text completions have none.
asio::awaitable<bool> open_message(SseStream& stream, const AnswerHead& head, bool& opened) {
  if (opened || !head.chat) co_return true;
  opened = true;
  const std::string chunk = role_chunk(head);
  const bool written = co_await stream.data(chunk);
  co_return written;
}

// The chunks of `deltas`, each in its own write.
asio::awaitable<bool> send_deltas(SseStream& stream, const AnswerHead& head, bool& opened, std::vector<text::Delta> deltas) {
  for (const auto& delta : deltas) {
    const auto chunk = delta_chunk(head, delta);
    if (!chunk) continue;
    if (!co_await open_message(stream, head, opened)) co_return false;
    if (!co_await stream.data(*chunk)) co_return false;
  }
  co_return true;
}

asio::awaitable<bool> send_progress(SseStream& stream, const AnswerHead& head, bool& opened, const Progress& progress) {
  if (!co_await open_message(stream, head, opened)) co_return false;
  const auto milliseconds = static_cast<std::int64_t>(progress.elapsed() * 1000);
  const std::string chunk = progress_chunk(head, *progress.prefill(), milliseconds);
  const bool written = co_await stream.data(chunk);
  co_return written;
}

asio::awaitable<bool> send_end(SseStream& stream, const AnswerHead& head, bool& opened, const Progress& progress,
                               bool include_usage) {
  if (!co_await open_message(stream, head, opened)) co_return false;
  const Usage usage = progress.usage();
  const std::string finish = finish_chunk(head, progress.answer().finish_reason(), usage);
  if (!co_await stream.data(finish)) co_return false;
  if (include_usage) {
    const std::string chunk = usage_chunk(head, usage);
    if (!co_await stream.data(chunk)) co_return false;
  }
  const bool written = co_await stream.done();
  co_return written;
}

// Everything by reference lives in the frame of run_answer, which awaits this.
asio::awaitable<void> stream_answer(Exchange& exchange, App& app, JobRun& run, Progress& progress, const AnswerHead& head,
                                    const AnswerPlan& plan, Headers headers) {
  SseStream stream(exchange, plan.ping_interval);
  bool opened = false;
  bool alive = co_await stream.open(std::move(headers));
  while (alive && !progress.over()) {
    std::optional<Event> event = co_await run.next(stream.ping_due());
    if (run.client_gone()) break;
    if (!event) {
      if (Clock::now() < stream.ping_due()) continue;
      ++app.metrics.pings;
      alive = co_await stream.ping();
      continue;
    }
    const bool prefill = std::holds_alternative<Prefill>(*event);
    auto deltas = progress.take(std::move(*event), run);
    alive = co_await send_deltas(stream, head, opened, std::move(deltas));
    if (alive && prefill && plan.progress) alive = co_await send_progress(stream, head, opened, progress);
  }
  if (!alive || !progress.over()) {
    note_gone(exchange, progress);
  } else if (progress.failure()) {
    note_failure(exchange, *progress.failure());
    // A job that nobody withdrew but the ticket: the stream had fallen too far behind.
    if (progress.failure()->code == ErrorCode::cancelled && !app.draining) ++app.metrics.backpressure_drops;
    // Without [DONE] and without a finish reason nobody takes this for an answer.
    exchange.abandon();
    const std::string error = error_json(failure_error(*progress.failure(), app));
    if (co_await stream.data(error)) co_await exchange.end_stream();
  } else {
    note_end(exchange, app, progress);
    co_await send_end(stream, head, opened, progress, plan.include_usage);
  }
}

asio::awaitable<void> collect_answer(Exchange& exchange, App& app, JobRun& run, Progress& progress, const AnswerHead& head,
                                     Headers headers) {
  while (!progress.over()) {
    const auto until = Clock::now() + std::chrono::hours(1);
    std::optional<Event> event = co_await run.next(until);
    if (run.client_gone()) {
      note_gone(exchange, progress);
      co_return;
    }
    if (event) progress.take(std::move(*event), run);
  }
  Response response{.headers = std::move(headers)};
  if (progress.failure()) {
    note_failure(exchange, *progress.failure());
    response = error_response(failure_error(*progress.failure(), app));
  } else {
    note_end(exchange, app, progress);
    response.body = whole_answer(head, progress.answer().message(), progress.answer().finish_reason(), progress.usage());
  }
  co_await exchange.respond(response);
}

}  // namespace

asio::awaitable<void> run_answer(Exchange& exchange, App& app, ClientWait& wait, AnswerPlan plan) {
  const ModelInfo info = app.model->info();
  const AnswerHead head{.chat = plan.chat,
                        .id = (plan.chat ? "chatcmpl-" : "cmpl-") + app.random_hex(24),
                        .model = info.id,
                        .fingerprint = info.fingerprint,
                        .created = static_cast<std::int64_t>(std::time(nullptr))};
  Headers headers;
  if (!plan.warnings.empty()) headers.emplace_back("X-K3-Warnings", fmt::format("{}", fmt::join(plan.warnings, "; ")));
  JobRun run(app, wait);
  Progress progress(app, plan);
  const auto submitted = run.submit(std::move(plan.job));
  if (submitted) progress.admitted(exchange.request().id);
  if (!submitted) {
    exchange.outcome = "refused";
    const Response refusal = error_response(failure_error(submitted.error(), app));
    co_await exchange.respond(refusal);
  } else if (plan.stream) {
    co_await stream_answer(exchange, app, run, progress, head, plan, std::move(headers));
  } else {
    co_await collect_answer(exchange, app, run, progress, head, std::move(headers));
  }
}

}  // namespace k3::server
