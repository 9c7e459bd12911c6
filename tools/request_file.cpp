#include "tools/request_file.hpp"

#include <algorithm>
#include <limits>

#include "server/sampling_fields.hpp"
#include "tools/input_output.hpp"

namespace k3::cli {
namespace {

using server::Fields;

// A wish that cannot be met is refused, as the server does.
void refuse_unserved(Fields& fields) {
  if (fields.integer("n", 1, std::numeric_limits<std::int64_t>::max()).value_or(1) != 1) fields.refuse("n", "only n = 1 is served");
  for (const std::string_view name : {"logprobs", "top_logprobs"}) {
    const json::Value* value = fields.find(name);
    const bool off = value == nullptr || (value->is_bool() && !value->boolean) || (value->is_number() && value->text == "0");
    if (!off) fields.refuse(name, std::string(name) + " is not served by `k3 generate`; `k3 logits` writes the model's numbers");
  }
}

std::vector<std::string> warnings_about(const json::Value& body) {
  constexpr std::string_view known[] = {
      // read here
      "temperature", "top_p", "top_k", "min_p", "repetition_penalty", "repeat_penalty", "presence_penalty", "frequency_penalty",
      "seed", "logit_bias", "stop", "max_tokens", "max_completion_tokens", "n", "logprobs", "top_logprobs",
      // read with the messages
      "messages", "tools", "tool_choice", "parallel_tool_calls", "response_format", "reasoning_effort", "thinking",
      "chat_template_kwargs", "reasoning_budget", "thinking_token_budget",
      // of the transport, or chosen by MODEL
      "model", "stream", "stream_options", "return_progress", "sse_ping_interval", "sse_ping_style"};
  std::vector<std::string> warnings;
  for (const json::Member& member : body.members) {
    if (member.value.is_null() || std::find(std::begin(known), std::end(known), member.key) != std::end(known)) continue;
    warnings.push_back("the field " + json::quoted(member.key) + " has no effect");
  }
  return warnings;
}

Result<json::Value> read_object(const std::string& path) {
  auto text = read_all(path);
  if (text.has_error()) return text.error();
  auto body = json::parse(*text);
  if (body.has_error()) {
    Error error = body.error();
    error.file = path;
    return error;
  }
  if (!body->is_array()) return body;
  json::Value wrapped;  // only the messages
  wrapped.kind = json::Value::Kind::object;
  wrapped.members.push_back({"messages", std::move(body).value()});
  return wrapped;
}

}  // namespace

Result<RequestFile> read_request_file(const std::string& path, const text::Tokenizer& tokenizer) {
  const auto wrong = [&](const std::string& message) { return fail(ErrorCode::invalid_argument, path + ": " + message); };
  const auto body = read_object(path);
  if (body.has_error()) return body.error();
  auto chat = text::read_chat_request(*body);
  if (chat.has_error()) {
    const text::RequestError& error = chat.error();
    return wrong(error.param.empty() ? error.message : error.param + ": " + error.message);
  }
  RequestFile out;
  out.chat = std::move(chat).value();
  Fields fields(*body);
  refuse_unserved(fields);
  constexpr server::Limits limits;
  server::read_sampling(fields, out.sampling);
  server::read_logit_bias(fields, limits, tokenizer.vocabulary_size(), out.sampling);
  server::read_stops(fields, limits, out.stops);
  out.max_tokens = server::read_max_tokens(fields);
  out.thinking_budget = server::read_thinking_budget(fields);
  if (fields.error()) return wrong(fields.error()->message);
  out.warnings = warnings_about(*body);
  return out;
}

}  // namespace k3::cli
