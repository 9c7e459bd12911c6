#include "tools/request_file.hpp"

#include <algorithm>
#include <charconv>
#include <limits>

#include "server/request_fields.hpp"
#include "tools/input_output.hpp"

namespace k3::cli {
namespace {

using server::Fields;

constexpr std::int64_t int64_max = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t int64_min = std::numeric_limits<std::int64_t>::min();

void read_sampling(Fields& fields, generation::Sampling& sampling) {
  const auto real = [&](std::string_view name, float& value, double low, double high) {
    value = static_cast<float>(fields.number(name, value, low, high));
  };
  real("temperature", sampling.temperature, 0, 2);
  real("top_p", sampling.top_p, 0, 1);
  if (!(sampling.top_p > 0)) fields.refuse("top_p", "top_p must be greater than 0 and at most 1");
  const std::int64_t top_k = fields.integer("top_k", -1, std::numeric_limits<int>::max()).value_or(sampling.top_k);
  sampling.top_k = static_cast<int>(std::max<std::int64_t>(top_k, 0));
  real("min_p", sampling.min_p, 0, 1);
  if (!(sampling.min_p < 1)) fields.refuse("min_p", "min_p must be at least 0 and less than 1");
  const std::string_view repetition = fields.find("repetition_penalty") != nullptr ? "repetition_penalty" : "repeat_penalty";
  real(repetition, sampling.repetition_penalty, 0, 100);
  if (!(sampling.repetition_penalty > 0)) fields.refuse(repetition, std::string(repetition) + " must be greater than 0");
  real("presence_penalty", sampling.presence_penalty, -2, 2);
  real("frequency_penalty", sampling.frequency_penalty, -2, 2);
  if (const auto seed = fields.integer("seed", int64_min, int64_max)) sampling.seed = static_cast<std::uint64_t>(*seed);
}

void read_logit_bias(Fields& fields, text::TokenId vocabulary, generation::Sampling& sampling) {
  const json::Value* biases = fields.object("logit_bias");
  if (biases == nullptr) return;
  Fields entries(*biases, "logit_bias.");
  for (const auto& [key, value] : biases->members) {
    std::int32_t id = -1;
    const auto [end, failure] = std::from_chars(key.data(), key.data() + key.size(), id);
    if (failure != std::errc() || end != key.data() + key.size() || id < 0 || id >= vocabulary) {
      return fields.refuse("logit_bias",
                           "logit_bias names a token that is not one of 0 to " + std::to_string(vocabulary - 1) + ": " + key);
    }
    sampling.logit_bias.emplace_back(id, static_cast<float>(entries.number(key, 0, -100, 100)));
  }
  fields.adopt(entries);
}

void read_stops(Fields& fields, std::vector<std::string>& stops) {
  const json::Value* stop = fields.find("stop");
  if (stop == nullptr) return;
  const auto add = [&](const json::Value& item) {
    if (!item.is_string()) return fields.refuse("stop", "stop must be a string or an array of strings");
    if (item.text.empty()) return fields.refuse("stop", "a stop string must not be empty");
    stops.push_back(item.text);
  };
  if (!stop->is_array()) return add(*stop);
  for (const json::Value& item : stop->items) add(item);
}

// A wish that cannot be met is refused, as the server does.
void refuse_unserved(Fields& fields) {
  if (fields.integer("n", 1, int64_max).value_or(1) != 1) fields.refuse("n", "only n = 1 is served");
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
      "chat_template_kwargs",
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
  read_sampling(fields, out.sampling);
  read_logit_bias(fields, tokenizer.vocabulary_size(), out.sampling);
  read_stops(fields, out.stops);
  const auto older = fields.integer("max_tokens", 1, int64_max);
  const auto newer = fields.integer("max_completion_tokens", 1, int64_max);
  if (const auto wanted = newer ? newer : older) out.max_tokens = static_cast<std::size_t>(*wanted);
  if (fields.error()) return wrong(fields.error()->message);
  out.warnings = warnings_about(*body);
  return out;
}

}  // namespace k3::cli
