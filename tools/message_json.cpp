#include "tools/message_json.hpp"

namespace k3::cli {

void write_message(json::Writer& writer, const text::ParsedMessage& message) {
  const auto text_or_null = [&](bool has, const std::string& text) {
    if (has) {
      writer.string(text);
    } else {
      writer.null();
    }
  };
  writer.key("reasoning_content");
  text_or_null(message.has_reasoning, message.reasoning);
  writer.key("content");
  text_or_null(message.has_content, message.content);
  writer.key("tool_calls").begin_array();
  for (const text::ToolCall& call : message.tool_calls) {
    writer.begin_object().key("id").string(call.id).key("type").string("function");
    writer.key("function").begin_object().key("name").string(call.name).key("arguments").string(call.arguments).end_object();
    writer.end_object();
  }
  writer.end_array();
}

json::Value json_string(std::string text) {
  json::Value value;
  value.kind = json::Value::Kind::string;
  value.text = std::move(text);
  return value;
}

json::Value chat_message(const std::string& role, std::string content) {
  json::Value message;
  message.kind = json::Value::Kind::object;
  message.members.push_back({"role", json_string(role)});
  message.members.push_back({"content", json_string(std::move(content))});
  return message;
}

}  // namespace k3::cli
