// K3's chat format (XTML): a chat request becomes the segments of its prompt. Control tokens come only from here: whatever a
// user typed lies in segments with allow_special = false.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "model/error.hpp"
#include "model/text/json.hpp"
#include "model/text/tokenizer.hpp"

namespace k3::text {

enum class Effort { low, high, max };
enum class ToolChoice { automatic, none, required };

// What holds for a request that does not say.
struct ThinkingDefault {
  bool on = true;
  std::optional<Effort> effort = Effort::max;  // also of thinking that a request switches on
};

// A validated chat request, as far as the prompt is concerned. Messages and tools stay JSON: the template's own rules decide
// what of them is rendered, and number literals must survive.
struct ChatRequest {
  std::vector<json::Value> messages;
  json::Value tools;  // array, or null for none
  bool thinking = true;
  std::optional<Effort> effort = Effort::max;  // nullopt: no thinking-effort message
  ToolChoice tool_choice = ToolChoice::automatic;
  std::string tool_name{};      // the only tool that may be called, and must be; the template has no words for it
  bool parallel_calls = true;   // false: the client wants one call at most; the template has no words for it
  json::Value response_format;  // {"type":"json_object"} and kin, or null
};

// Reads messages, tools, tool_choice, parallel_tool_calls, response_format and every spelling of thinking and effort
// (`reasoning_effort`, `thinking {type, effort, keep}`, `chat_template_kwargs {thinking, enable_thinking, thinking_effort}`) from a
// chat completion body. Explicit null means absent, except chat_template_kwargs.thinking_effort: null, which means no effort
// message. An error's `file` is empty and its `expected`/`got` speak of the value; `param` names the JSON path.
struct RequestError {
  std::string message;
  std::string param;  // e.g. "messages[2].role"
  std::string code = "invalid_value";
};
boost::system::result<ChatRequest, RequestError> read_chat_request(json::Value body, const ThinkingDefault& thinking = {});

// Stricter than the template, as hosted endpoints are: every tool message needs `tool_call_id`, a bare `name` is not enough; and a
// user's message needs a content, which may be empty but not null.
std::optional<RequestError> check_hosted_rules(const ChatRequest& request);

// The prompt, in the order of the reference template; ends with the generation prompt that opens `think` or `response`.
Result<std::vector<Segment>> render(const ChatRequest& request);

[[noreturn]] inline void throw_exception_from_error(const RequestError& error, const boost::source_location&) {
  throw std::runtime_error(error.param + ": " + error.message);
}

}  // namespace k3::text
