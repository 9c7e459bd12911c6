#include "server/responses_input.hpp"

#include <fmt/format.h>

#include "server/responses_request.hpp"

namespace k3::server {
namespace {

std::string_view text_member(const json::Value& object, std::string_view name) {
  const json::Value* value = object.find(name);
  return value != nullptr && value->is_string() ? std::string_view(value->text) : std::string_view();
}

// Thinking, text and calls of one turn come as items of their own; a chat has them in one message. Keeps the first error.
class Items {
 public:
  explicit Items(TranslatedBody& out) : out_(out) {}

  void push(json::Value message, const std::string& path);
  void item(json::Value& item, const std::string& path);
  std::optional<ApiError> finish();

 private:
  // A turn of the assistant in the making.
  struct Turn {
    std::string reasoning{}, path{};
    json::Value content = array_value(), calls = array_value();
    bool begun = false, spoken = false;
  };
  void message(json::Value& item, const std::string& path);
  void reasoning(json::Value& item, const std::string& path);
  void call(json::Value& item, const std::string& path);
  void output(json::Value& item, const std::string& path);
  json::Value content_of(json::Value& item, std::string_view name, const std::string& path);
  std::string take_text(json::Value& object, std::string_view name, const std::string& path);
  void begin(const std::string& path);
  void close();
  void refuse(const std::string& path, std::string message, std::string code = "invalid_value") {
    if (!error_) error_ = field_error(path, std::move(message), std::move(code));
  }

  TranslatedBody& out_;
  Turn turn_;
  std::vector<json::Value> messages_;
  std::optional<ApiError> error_;
};

void Items::push(json::Value message, const std::string& path) {
  close();
  messages_.push_back(std::move(message));
  out_.messages.push_back(path);
}

void Items::begin(const std::string& path) {
  if (turn_.begun) return;
  turn_.begun = true;
  turn_.path = path;
}

void Items::close() {
  if (!turn_.begun) return;
  Turn turn = std::exchange(turn_, Turn());
  json::Value message = message_value("assistant", std::move(turn.content));
  if (!turn.reasoning.empty()) put(message, "reasoning_content", text_value(std::move(turn.reasoning)));
  if (!turn.calls.items.empty()) put(message, "tool_calls", std::move(turn.calls));
  push(std::move(message), turn.path);
}

std::string Items::take_text(json::Value& object, std::string_view name, const std::string& path) {
  json::Value* text = object.find(name);
  if (text != nullptr && text->is_string()) return std::move(text->text);
  const std::string here = fmt::format("{}.{}", path, name);
  refuse(here, here + " must be a string", "invalid_type");
  return {};
}

// Text, or parts of it.
json::Value Items::content_of(json::Value& item, std::string_view name, const std::string& path) {
  json::Value parts = array_value();
  const std::string here = fmt::format("{}.{}", path, name);
  json::Value* content = item.find(name);
  if (content == nullptr || content->is_null()) {
    refuse(here, here + " is missing", "missing_field");
  } else if (content->is_string()) {
    parts.items.push_back(text_part(std::move(content->text)));
  } else if (!content->is_array()) {
    refuse(here, here + " must be a string or an array of parts", "invalid_type");
  } else {
    for (std::size_t i = 0; i < content->items.size(); ++i) {
      const std::string place = at(here, i);
      json::Value& part = content->items[i];
      const std::string type(text_member(part, "type"));
      if (type == "input_text" || type == "output_text" || type == "text") {
        parts.items.push_back(text_part(take_text(part, "text", place)));
      } else if (type == "refusal") {
        parts.items.push_back(text_part(take_text(part, "refusal", place)));
      } else if (is_image(type)) {
        refuse(place, std::string(kTextOnly), "unsupported_content_type");
      } else {
        refuse(place + ".type", fmt::format("parts of type \"{}\" are not served here, only text", type), "unsupported_value");
      }
    }
  }
  return parts;
}

void Items::message(json::Value& item, const std::string& path) {
  const std::string role(text_member(item, "role"));
  json::Value content = content_of(item, "content", path);
  if (role == "user" || role == "system" || role == "developer") return push(message_value(role, std::move(content)), path);
  if (role != "assistant") return refuse(path + ".role", path + ".role must be user, assistant, system or developer");
  if (turn_.spoken || !turn_.calls.items.empty()) close();
  begin(path);
  turn_.spoken = true;
  turn_.content = std::move(content);
}

// What was thought, in whichever of its fields the client has kept it. A summary is the least of them.
void Items::reasoning(json::Value& item, const std::string& path) {
  if (turn_.spoken || !turn_.calls.items.empty()) close();
  begin(path);
  for (const std::string_view name : {"content", "summary"}) {
    json::Value* parts = item.find(name);
    if (parts == nullptr || parts->is_null() || (parts->is_array() && parts->items.empty())) continue;
    const std::string here = fmt::format("{}.{}", path, name);
    if (!parts->is_array()) return refuse(here, here + " must be an array of parts", "invalid_type");
    if (name == "summary" && text_member(item, "encrypted_content").starts_with(kOwnThinking)) break;
    for (std::size_t i = 0; i < parts->items.size(); ++i) turn_.reasoning += take_text(parts->items[i], "text", at(here, i));
    return;
  }
  const std::string_view own = text_member(item, "encrypted_content");
  if (own.starts_with(kOwnThinking)) turn_.reasoning += own.substr(kOwnThinking.size());
}

void Items::call(json::Value& item, const std::string& path) {
  begin(path);
  json::Value function = object_value();
  std::string name = take_text(item, "name", path);
  if (name.empty()) refuse(path + ".name", path + ".name must not be empty");
  put(function, "name", text_value(std::move(name)));
  put(function, "arguments", text_value(take_text(item, "arguments", path)));
  json::Value call = object_value();
  put(call, "id", text_value(take_text(item, "call_id", path)));
  put(call, "type", text_value("function"));
  put(call, "function", std::move(function));
  turn_.calls.items.push_back(std::move(call));
}

void Items::output(json::Value& item, const std::string& path) {
  json::Value message = message_value("tool", content_of(item, "output", path));
  put(message, "tool_call_id", text_value(take_text(item, "call_id", path)));
  push(std::move(message), path);
}

void Items::item(json::Value& item, const std::string& path) {
  if (!item.is_object()) return refuse(path, path + " must be an object", "invalid_type");
  const std::string_view type = text_member(item, "type");
  const bool typed = item.find("type") != nullptr && !item.find("type")->is_null();
  if (type == "message" || (!typed && item.find("role") != nullptr)) {
    message(item, path);
  } else if (type == "reasoning") {
    reasoning(item, path);
  } else if (type == "function_call") {
    call(item, path);
  } else if (type == "function_call_output") {
    output(item, path);
  } else if (type == "item_reference") {
    refuse(path + ".type", "item_reference is not served: nothing is stored here, so send the item itself", "unsupported_value");
  } else {
    refuse(path + ".type", fmt::format("items of type \"{}\" are not served here", type), "unsupported_value");
  }
}

std::optional<ApiError> Items::finish() {
  close();
  if (error_) return error_;
  json::Value messages = array_value();
  messages.items = std::move(messages_);
  put(out_.body, "messages", std::move(messages));
  return std::nullopt;
}

}  // namespace

std::optional<ApiError> read_input(json::Value& body, const std::string& instructions, TranslatedBody& out) {
  json::Value* input = body.find("input");
  if (input == nullptr || input->is_null()) return field_error("input", "input is missing", "missing_field");
  Items items(out);
  if (!instructions.empty()) items.push(message_value("system", text_value(instructions)), "instructions");
  if (input->is_string()) {
    items.push(message_value("user", std::move(*input)), "input");
  } else if (!input->is_array()) {
    return field_error("input", "input must be a string or an array of items", "invalid_type");
  } else if (input->items.empty()) {
    return field_error("input", "input must not be empty");
  } else {
    for (std::size_t i = 0; i < input->items.size(); ++i) items.item(input->items[i], at("input", i));
  }
  return items.finish();
}

}  // namespace k3::server
