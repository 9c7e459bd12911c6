// How long a prompt is, before anybody waits for it.
#include "server/chat_request.hpp"
#include "server/endpoints.hpp"
#include "server/messages_request.hpp"
#include "server/responses_request.hpp"

namespace k3::server {
namespace {

void write_seconds(json::Writer& writer, std::string_view name, std::optional<double> seconds) {
  writer.key(name);
  if (seconds) {
    writer.number(*seconds);
  } else {
    writer.null();
  }
}

// What is not known is null: nobody should take a guess for an estimate.
void write_estimates(json::Writer& writer, const ChatPrompt& prompt, const BodyContext& context) {
  const auto cached = context.asked->cached_tokens(prompt.ids);
  writer.key("cached_tokens");
  if (cached) {
    writer.integer(static_cast<std::int64_t>(*cached));
  } else {
    writer.null();
  }
  writer.key("estimated_seconds");
  const std::size_t computed = prompt.ids.size() - std::min(cached.value_or(0), prompt.ids.size());
  const auto reading = context.prompt_pace.seconds(computed, context.model.step_rows, context.token_pace);
  std::optional<double> writing;
  if (context.token_pace) writing = *context.token_pace * 100;
  if (!reading && !writing) {
    writer.null();
    return;
  }
  writer.begin_object();
  write_seconds(writer, "prompt", reading);
  write_seconds(writer, "per_100_answer_tokens", writing);
  writer.end_object();
}

// Counted as usage counts: without what opens the answer.
Response count(const ChatPrompt& prompt, const BodyContext& context, bool estimates) {
  Response response;
  json::Writer writer(response.body);
  writer.begin_object();
  writer.key("input_tokens").integer(static_cast<std::int64_t>(prompt.ids.size() - prompt.opener));
  if (estimates) write_estimates(writer, prompt, context);
  writer.end_object();
  return response;
}

Prepared count_translated(Translation chat, std::span<const FieldName> names, const BodyContext& context, bool estimates) {
  if (!chat) return error_response(chat.error());
  const auto prompt = chat_prompt(std::move(chat->body), context);
  if (!prompt) return error_response(relocated(prompt.error(), *chat, names));
  return count(*prompt, context, estimates);
}

}  // namespace

Prepared count_chat_tokens(std::string_view text, const BodyContext& context) {
  auto body = read_body(text, context.options);
  if (!body) return error_response(body.error());
  const auto prompt = chat_prompt(std::move(*body), context);
  if (!prompt) return error_response(prompt.error());
  return count(*prompt, context, true);
}

Prepared count_message_tokens(std::string_view text, const BodyContext& context) {
  auto body = read_body(text, context.options);
  if (!body) return error_response(body.error());
  return count_translated(translate_messages(std::move(*body), true), messages_names(), context, false);
}

Prepared count_response_tokens(std::string_view text, const BodyContext& context) {
  auto body = read_body(text, context.options);
  if (!body) return error_response(body.error());
  return count_translated(translate_response(std::move(*body)), responses_names(), context, true);
}

}  // namespace k3::server
