// One tool call on its way out: typed argument elements become one growing JSON object.
#pragma once

#include "model/text/channel_parser.hpp"

namespace k3::text {

// Every function returns the JSON it added, for the stream; call().arguments has all of it. What has been added is always the
// beginning of a valid object, and after end_call() it is one.
class CallWriter {
 public:
  CallWriter() = default;
  CallWriter(std::string id, std::string name) { call_ = {std::move(id), std::move(name), {}}; }

  // A string is escaped as it arrives; any other type is held until it closes, because only then is it known to be JSON.
  std::string begin_argument(std::string_view key, std::string_view type);
  // The whole object in one piece, instead of arguments.
  void begin_json();
  // Text to be swallowed, of an argument that cannot be named.
  void begin_ignored();
  std::string text(std::string_view bytes);
  std::string end_argument();
  std::string end_call();

  const ToolCall& call() const { return call_; }

 private:
  enum class Value { ignored, string, literal, json };
  std::string add(std::string json);
  std::string name_of(std::string_view key);

  ToolCall call_;
  Value value_ = Value::ignored;
  Utf8Stream utf8_;
  std::string key_;
  std::string held_;
  bool complete_ = false;  // a json block has filled the object
};

}  // namespace k3::text
