// The options of a chat request beside its messages, and the small tools for checking JSON that the readers share.
#pragma once

#include "model/text/chat_format.hpp"

namespace k3::text {

using RequestFailure = std::optional<RequestError>;

// Explicit null means absent.
inline const json::Value* present(const json::Value& object, std::string_view key) {
  const json::Value* value = object.find(key);
  return value && !value->is_null() ? value : nullptr;
}

RequestFailure read_thinking(const json::Value& body, const ThinkingDefault& otherwise, ChatRequest& out);
RequestFailure read_response_format(const json::Value& body, ChatRequest& out);
// Needs messages and tools already read.
RequestFailure read_tool_choice(const json::Value& body, ChatRequest& out);
RequestFailure read_parallel_calls(const json::Value& body, ChatRequest& out);

}  // namespace k3::text
