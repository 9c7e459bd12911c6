#include "server/answer_run.hpp"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <filesystem>

#include "server/answer_parts.hpp"
#include "server/openai_shapes.hpp"
#include "server/run_board.hpp"

namespace k3::server {
namespace {

// For whoever asked: the file by its name alone, because where it lies is the server's business. The log has the whole path.
std::string told(Error error) {
  error.file = std::filesystem::path(error.file).filename().string();
  return error.describe();
}

// A name that a client sent, as it may stand in a header.
std::string printable(std::string_view name) {
  std::string text;
  for (const char c : name.substr(0, 64)) text += c > ' ' && c < 0x7f && c != ',' ? c : '?';
  return text;
}

std::string ignored_list(const std::vector<std::string>& names) {
  constexpr std::size_t kMost = 16;
  std::string list;
  for (std::size_t i = 0; i < std::min(names.size(), kMost); ++i) list += (i > 0 ? "," : "") + printable(names[i]);
  if (names.size() > kMost) list += fmt::format(",+{}", names.size() - kMost);
  return list;
}

// The server's choice, or the client's for this request.
bool choose_keepalive(const Request& request, const App& app, AnswerPlan& plan) {
  plan.keepalive = app.options.keepalive;
  if (!request.keepalive.empty()) {
    const auto wish = keepalive(request.keepalive);
    if (!wish) return false;
    plan.keepalive = *wish;
  }
  // HTTP/1.0 has no interim responses, and there a body that was cut short looks like one that ended.
  if (!request.http11) plan.keepalive = Keepalive::off;
  return true;
}

ApiError too_many(const App& app) {
  const std::size_t most = app.options.limits.answers_per_key;
  return {
      .status = 429,
      .message = fmt::format("this API key has {} answers running or waiting, which is as many as it may (--max-per-key)", most),
      .code = "key_limit",
      .headers = {{"Retry-After", std::to_string(app.runs->retry_after())}}};
}

asio::awaitable<void> refuse(Exchange& exchange, const ApiError& error) {
  exchange.outcome = "refused";
  const Response refusal = error_response(error);
  co_await exchange.respond(refusal);
}

AnswerHead head_of(const App& app, const Request& request, const AnswerPlan& plan, const SharedRun& run) {
  ModelInfo info = app.model->info();
  return {.chat = plan.chat,
          .id = run.id_digits(),
          .model = std::move(info.id),
          .fingerprint = std::move(info.fingerprint),
          .created = run.created(),
          .tokenizer = plan.answer.logprobs ? app.tokenizer.get() : nullptr,
          .prompt_tokens = plan.prompt_tokens - plan.unreported,
          .include_usage = plan.include_usage,
          .choice_usage = plan.chat && app.options.sampling_contract == SamplingContract::moonshot,
          .request = request.id};
}

}  // namespace

ApiError failure_error(const Error& error, const App& app) {
  if (error.code == ErrorCode::overloaded) {
    return {.status = 429,
            .message = error.message,
            .code = "queue_full",
            .headers = {{"Retry-After", std::to_string(app.runs->retry_after())}}};
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

void note_failure(AnswerParts& parts) {
  parts.exchange.outcome = "failed";
  spdlog::warn("{} answer failed: {}", parts.exchange.request().id, parts.progress.failure()->describe());
}

void note_gone(AnswerParts& parts) {
  parts.exchange.outcome = "gone";
  parts.exchange.abandon();
  parts.progress.client_left();
}

void note_end(AnswerParts& parts) {
  const Usage usage = parts.progress.usage();
  parts.exchange.prompt_tokens = usage.prompt;
  parts.exchange.output_tokens = usage.completion;
  parts.exchange.outcome = parts.progress.answer().finish_reason();
  parts.exchange.cut_thinking = parts.progress.answer().cut_in() == generation::CutIn::thinking;
  parts.app.metrics.whole_answer.observe(parts.progress.elapsed());
}

AnswerEnd end_of(const AnswerParts& parts) {
  const auto& answer = parts.progress.answer();
  return {.message = answer.message(),
          .reason = answer.finish_reason(),
          .stop_string = answer.stop_string(),
          .cut = answer.cut_in(),
          .usage = parts.progress.usage()};
}

std::vector<generation::SpokenToken> spoken(AnswerParts& parts) {
  if (!parts.logprobs) return {};
  return parts.progress.spoken();
}

asio::awaitable<void> run_answer(Exchange& exchange, App& app, ClientWait& wait, AnswerPlan plan, RunIdentity identity) {
  if (!choose_keepalive(exchange.request(), app, plan)) {
    const ApiError error = field_error("X-Keepalive", "X-Keepalive must be pad, 102 or off");
    co_await refuse(exchange, error);
    co_return;
  }
  Headers headers;
  if (!plan.warnings.empty()) headers.emplace_back("X-K3-Warnings", fmt::format("{}", fmt::join(plan.warnings, "; ")));
  if (!plan.ignored.empty()) headers.emplace_back("X-K3-Ignored", ignored_list(plan.ignored));
  std::shared_ptr<SharedRun> shared = app.runs->find(identity);
  const bool joined = shared != nullptr;
  if (joined) {
    headers.emplace_back("X-K3-Joined", "true");
    plan.job = Job{};
  } else if (app.runs->at_limit(identity)) {
    const ApiError error = too_many(app);
    co_await refuse(exchange, error);
    co_return;
  } else {
    auto begun = app.runs->begin(std::move(identity), std::move(plan.job));
    if (!begun) {
      const ApiError error = failure_error(begun.error(), app);
      co_await refuse(exchange, error);
      co_return;
    }
    shared = std::move(*begun);
  }
  JobRun run(app, wait, shared);
  AnswerHead head = head_of(app, exchange.request(), plan, *shared);
  const bool logprobs = plan.answer.logprobs;
  const auto shape = plan.shape ? plan.shape(std::move(head)) : completion_shape(std::move(head));
  Progress progress(app, plan, joined, exchange.request().id);
  AnswerParts parts{exchange, app, run, progress, *shape, logprobs, plan};
  if (plan.stream) {
    co_await stream_answer(parts, std::move(headers));
  } else {
    co_await collect_answer(parts, std::move(headers));
  }
}

}  // namespace k3::server
