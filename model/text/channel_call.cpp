#include "model/text/channel_call.hpp"

#include "model/text/json.hpp"

namespace k3::text {
namespace {

std::string escaped(std::string_view text) {
  const std::string literal = json::quoted(text);
  return literal.substr(1, literal.size() - 2);
}

// A byte order mark is fine before a document but not inside one; one level is for the object that the value becomes part of.
bool is_json(std::string_view text) {
  const json::ParseOptions options{.max_depth = json::ParseOptions{}.max_depth - 1};
  return !text.starts_with("\xEF\xBB\xBF") && json::parse(text, options).has_value();
}

bool is_json_object(std::string_view text) {
  if (text.starts_with("\xEF\xBB\xBF")) return false;
  const auto parsed = json::parse(text);
  return parsed.has_value() && parsed->is_object();
}

}  // namespace

std::string CallWriter::add(std::string json) {
  call_.arguments += json;
  return json;
}

// Separators as Python writes them: that is also how arguments are rendered back into a prompt.
std::string CallWriter::name_of(std::string_view key) { return (call_.arguments.empty() ? "{" : ", ") + json::quoted(key) + ": "; }

std::string CallWriter::begin_argument(std::string_view key, std::string_view type) {
  begin_ignored();
  if (complete_) return {};
  if (type == "string") {
    value_ = Value::string;
    return add(name_of(key) + '"');
  }
  value_ = Value::literal;
  key_ = key;
  return {};
}

void CallWriter::begin_json() {
  begin_ignored();
  if (!complete_ && call_.arguments.empty()) value_ = Value::json;
}

void CallWriter::begin_ignored() {
  value_ = Value::ignored;
  held_.clear();
  utf8_ = {};
}

std::string CallWriter::text(std::string_view bytes) {
  if (value_ == Value::ignored) return {};
  std::string text = utf8_.push(bytes);
  if (value_ == Value::string) return add(escaped(text));
  held_ += text;
  return {};
}

std::string CallWriter::end_argument() {
  const Value value = std::exchange(value_, Value::ignored);
  if (value == Value::ignored) return {};
  const std::string tail = utf8_.finish();
  if (value == Value::string) return add(escaped(tail) + '"');
  held_ += tail;
  if (value == Value::literal) return add(name_of(key_) + (is_json(held_) ? held_ : json::quoted(held_)));
  complete_ = true;
  // Arguments are an object whatever the block holds.
  return add(is_json_object(held_) ? held_ : "{\"json\": " + json::quoted(held_) + "}");
}

std::string CallWriter::end_call() {
  if (complete_) return {};
  return add(call_.arguments.empty() ? "{}" : "}");
}

}  // namespace k3::text
