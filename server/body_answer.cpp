#include "server/body_answer.hpp"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <boost/uuid/detail/sha1.hpp>

#include "server/run_board.hpp"
#include "server/workshop.hpp"

namespace k3::server {
namespace {

// Owns all that the worker touches, so that the session may end before the worker does.
struct Task {
  Prepare prepare;
  std::string body;
  BodyContext context;
  RunIdentity identity;
  std::string who{};  // of the identity, what is not in the body
  Prepared result{};
};

BodyContext context_of(App& app, const ClientWait& wait) {
  return {.options = app.options,
          .tokenizer = app.tokenizer,
          .trie = app.trie,
          .model = app.model->info(),
          .asked = app.model,
          .prompt_pace = app.runs->prompt_pace(),
          .token_pace = app.runs->token_pace().seconds_each(),
          .seed = app.random(),
          .stop = wait.stop_token()};
}

bool is_large(const Task& task) { return task.body.size() > task.context.options.limits.inline_body_bytes; }

// Of two requests that are the same, the same. Those who can make two others collide only join a run of their own.
std::string digest(std::string_view who, std::string_view body) {
  boost::uuids::detail::sha1 hash;
  hash.process_bytes(who.data(), who.size());
  hash.process_bytes(body.data(), body.size());
  boost::uuids::detail::sha1::digest_type words;
  hash.get_digest(words);
  std::string text;
  for (const auto word : words) text += fmt::format("{:08x}", word);
  return text;
}

// What tells one client's request from another's, as far as it is not in the body; empty for those that will not be sent again. The
// lengths keep one field from being taken for a part of the next.
std::string who_asks(const Request& request) {
  if (!request.sdk && request.idempotency_key.empty()) return {};
  std::string who;
  for (const std::string& part : {request.authorization, request.api_key, request.idempotency_key, request.path})
    who += fmt::format("{}:{}", part.size(), part);
  return who;
}

RunIdentity identity_of(const Request& request) {
  return {.digest = {}, .resend = request.resent || !request.idempotency_key.empty(), .sdk = request.sdk, .key = request.key_name};
}

// Never throws: on the worker there is nobody to catch.
void work(Task& task) noexcept {
  const auto& hook = task.context.options.before_large_body;
  try {
    if (hook && task.context.at_leisure) hook(task.context.stop);
    if (!task.who.empty()) task.identity.digest = digest(task.who, task.body);
    task.result = task.prepare(task.body, task.context);
  } catch (const std::exception& error) {
    spdlog::error("a body of {} bytes could not be worked through: {}", task.body.size(), error.what());
    task.result = error_response({.status = 500, .message = "the request could not be worked through", .code = "internal_error"});
  }
  // A generation may run for hours; the body is not needed for it.
  if (!std::holds_alternative<TakesLong>(task.result)) task.body = std::string();
}

ApiError busy(const Workshop& workshop) {
  return {.status = 429,
          .message = "too many large requests at once",
          .code = "busy",
          .headers = {{"Retry-After", std::to_string(workshop.backlog().count())}}};
}

ApiError shutting_down() {
  return {
      .status = 503, .message = "the server is shutting down", .code = "shutting_down", .headers = {{"x-should-retry", "false"}}};
}

// The response where there is no plan for an answer of the model; nullopt: nobody is there to take one.
asio::awaitable<std::optional<Prepared>> prepare_in_workshop(App& app, ClientWait& wait, std::shared_ptr<Task> task) {
  task->context.at_leisure = true;
  std::function<void()> job = [task] { work(*task); };
  const auto outcome = co_await app.workshop->run(wait, task->body.size(), std::move(job));
  std::optional<Prepared> result;
  if (outcome == Workshop::Outcome::done) {
    result = std::move(task->result);
  } else if (outcome == Workshop::Outcome::full) {
    result = error_response(busy(*app.workshop));
  } else if (!wait.client_gone()) {
    result = error_response(shutting_down());
  }
  co_return result;
}

}  // namespace

asio::awaitable<void> answer_body(Exchange& exchange, App& app, Prepare prepare) {
  ClientWait wait(app, exchange);
  const auto task = std::make_shared<Task>(
      Task{prepare, exchange.take_body(), context_of(app, wait), identity_of(exchange.request()), who_asks(exchange.request())});
  std::optional<Prepared> prepared;
  bool for_workshop = is_large(*task);
  if (!for_workshop) {
    work(*task);
    for_workshop = std::holds_alternative<TakesLong>(task->result);
    if (!for_workshop) prepared = std::move(task->result);
  }
  if (for_workshop) prepared = co_await prepare_in_workshop(app, wait, task);
  if (!prepared) {
    exchange.outcome = "gone";
    exchange.abandon();
  } else if (auto* response = std::get_if<Response>(&*prepared)) {
    co_await exchange.respond(*response);
  } else {
    AnswerPlan plan = std::move(std::get<AnswerPlan>(*prepared));
    RunIdentity identity = std::move(task->identity);
    co_await run_answer(exchange, app, wait, std::move(plan), std::move(identity));
  }
}

}  // namespace k3::server
