#include <fmt/format.h>

#include <algorithm>

#include "server/answer_run.hpp"
#include "server/chat_request.hpp"
#include "server/endpoints.hpp"

namespace k3::server {
namespace {

std::size_t calls_so_far(const std::vector<json::Value>& messages) {
  std::size_t count = 0;
  for (const auto& message : messages) {
    const json::Value* calls = message.find("tool_calls");
    if (calls != nullptr && calls->is_array()) count += calls->items.size();
  }
  return count;
}

// The opener is `<|open|>think<|sep|>` or `<|open|>response<|sep|>`: what begins at the last <|open|>.
std::size_t opener_length(const std::vector<text::TokenId>& ids, text::TokenId open) {
  const auto last = std::find(ids.rbegin(), ids.rend(), open);
  return last == ids.rend() ? 0 : static_cast<std::size_t>(last - ids.rbegin()) + 1;
}

// What reaches the model as a sentence in its prompt and nothing more must not look like a promise.
std::vector<std::string> unenforced(const text::ChatRequest& request) {
  std::vector<std::string> warnings;
  const json::Value* type = request.response_format.find("type");
  if (type != nullptr && type->is_string() && type->text != "text") {
    warnings.emplace_back("response_format is rendered into the prompt but not enforced");
  }
  if (request.tool_choice == text::ToolChoice::required) {
    warnings.emplace_back("tool_choice is rendered into the prompt but not enforced");
  }
  return warnings;
}

boost::system::result<AnswerPlan, ApiError> plan_chat(std::string_view text, App& app) {
  const auto body = read_body(text, app.options.limits);
  if (!body) return body.error();
  AnswerPlan plan;
  Fields fields(*body);
  read_answer_fields(fields, app, plan);
  if (fields.error()) return *fields.error();
  auto prompt = chat_prompt(*body, app);
  if (!prompt) return prompt.error();
  plan.job.prompt = std::move(prompt->ids);
  plan.unreported = prompt->opener;
  plan.answer.thinking = prompt->request.thinking;
  plan.answer.first_call_index = prompt->first_call;
  plan.warnings = unenforced(prompt->request);
  if (auto error = fit_context(plan, app.model->info())) return std::move(*error);
  return plan;
}

}  // namespace

boost::system::result<ChatPrompt, ApiError> chat_prompt(const json::Value& body, const App& app) {
  const json::Value* tools = body.find("tools");
  if (tools != nullptr && tools->items.size() > app.options.limits.tools) {
    return ApiError{.status = 400,
                    .message = fmt::format("tools may hold at most {} functions", app.options.limits.tools),
                    .param = "tools",
                    .code = "invalid_value"};
  }
  auto request = text::read_chat_request(body);
  if (!request) {
    return ApiError{.status = 400, .message = request.error().message, .param = request.error().param, .code = "invalid_value"};
  }
  ChatPrompt prompt;
  prompt.request = std::move(*request);
  prompt.first_call = calls_so_far(prompt.request.messages);
  auto segments = text::render(prompt.request);
  if (!segments) {
    return ApiError{.status = 400, .message = segments.error().describe(), .param = "messages", .code = "invalid_value"};
  }
  prompt.segments = std::move(*segments);
  auto ids = app.tokenizer->encode(std::span<const text::Segment>(prompt.segments));
  if (!ids) return ApiError{.status = 400, .message = ids.error().describe(), .param = "messages", .code = "invalid_value"};
  prompt.ids = std::move(*ids);
  prompt.opener = opener_length(prompt.ids, app.tokenizer->control().open);
  return prompt;
}

asio::awaitable<void> chat_completions(Exchange& exchange, App& app) {
  auto plan = plan_chat(exchange.take_body(), app);
  if (!plan) {
    const Response refusal = error_response(plan.error());
    co_await exchange.respond(refusal);
    co_return;
  }
  co_await run_answer(exchange, app, std::move(*plan));
}

}  // namespace k3::server
