#include <fmt/format.h>

#include <algorithm>

#include "model/generation/answer_grammar.hpp"
#include "model/text/chat_tool_results.hpp"
#include "server/chat_request.hpp"
#include "server/endpoints.hpp"
#include "server/sampling_contract.hpp"

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

// Some at a time, because the encoder cannot be told to stop.
std::optional<ApiError> encode(ChatPrompt& prompt, const BodyContext& context) {
  constexpr std::size_t kAtOnce = 4096;
  const std::span<const text::Segment> segments(prompt.segments);
  for (std::size_t begin = 0; begin < segments.size(); begin += kAtOnce) {
    if (context.stop.stop_requested())
      return ApiError{.status = 503, .message = "nobody waits for this any more", .code = "cancelled"};
    const auto ids = context.tokenizer->encode(segments.subspan(begin, std::min(kAtOnce, segments.size() - begin)));
    if (!ids) return field_error("messages", ids.error().describe());
    prompt.ids.insert(prompt.ids.end(), ids->begin(), ids->end());
  }
  return std::nullopt;
}

}  // namespace

boost::system::result<ChatPrompt, ApiError> chat_prompt(json::Value body, const BodyContext& context) {
  const json::Value* tools = body.find("tools");
  const std::size_t most = context.options.limits.tools;
  if (tools != nullptr && tools->items.size() > most) {
    return field_error("tools", fmt::format("tools may hold at most {} functions", most));
  }
  auto request = text::read_chat_request(std::move(body), context.options.thinking);
  if (!request) return field_error(request.error().param, request.error().message, request.error().code);
  if (const auto wrong = text::check_hosted_rules(*request)) return field_error(wrong->param, wrong->message, wrong->code);
  ChatPrompt prompt;
  prompt.request = std::move(*request);
  prompt.first_call = calls_so_far(prompt.request.messages);
  if (const std::size_t guessed = text::results_by_place(prompt.request.messages); guessed > 0) {
    prompt.warnings.push_back(
        fmt::format("{} tool result(s) were given to calls in their order, as an id names no call of the turn before", guessed));
  }
  auto segments = text::render(prompt.request);
  if (!segments) return field_error("messages", segments.error().describe());
  prompt.segments = std::move(*segments);
  if (auto failure = encode(prompt, context)) return std::move(*failure);
  prompt.opener = opener_length(prompt.ids, context.tokenizer->control().open);
  return prompt;
}

Prepared chat_completions(std::string_view text, const BodyContext& context) {
  auto body = read_body(text, context.options);
  if (!body) return error_response(body.error());
  return chat_answer(std::move(*body), context);
}

namespace {

// They are honoured whatever the answer has to be.
void warn_of_stops(const text::ChatRequest& request, std::vector<std::string>& warnings) {
  if (!request.response_format.is_null()) warnings.push_back("a stop string may end the JSON before it is whole");
  if (request.tool_choice == text::ToolChoice::required || !request.tool_name.empty())
    warnings.push_back("a stop string in the text before the call may end the answer without one");
}

}  // namespace

Prepared chat_answer(json::Value body, const BodyContext& context) {
  if (auto error = against_contract(body, context.options)) return error_response(*error);
  AnswerPlan plan;
  Fields fields(body);
  read_answer_fields(fields, context, plan);
  if (fields.error()) return error_response(*fields.error());
  auto prompt = chat_prompt(std::move(body), context);
  if (!prompt) return error_response(prompt.error());
  // A schema of a few bytes can take seconds to be made a grammar, or to be refused for that.
  if (!context.at_leisure && generation::demands_form(prompt->request)) return TakesLong{};
  plan.job.prompt = std::move(prompt->ids);
  plan.unreported = prompt->opener;
  plan.warnings = std::move(prompt->warnings);
  if (!plan.answer.stops.empty()) warn_of_stops(prompt->request, plan.warnings);
  plan.answer.thinking = prompt->request.thinking;
  plan.answer.first_call_index = prompt->first_call;
  if (prompt->request.thinking) plan.job.form.thinking = generation::thinking_end(*context.tokenizer);
  auto grammar = generation::answer_grammar(prompt->request, context.tokenizer->control());
  if (!grammar) return error_response(field_error(grammar.error().param, grammar.error().message, grammar.error().code));
  plan.job.form.grammar = std::move(*grammar);
  plan.job.form.trie = context.trie;
  if (auto error = fit_context(plan, context.model)) return error_response(*error);
  return plan;
}

}  // namespace k3::server
