#include "server/messages_content.hpp"

#include <fmt/format.h>

namespace k3::server {
namespace {

std::string_view text_member(const json::Value& object, std::string_view name) {
  const json::Value* value = object.find(name);
  return value != nullptr && value->is_string() ? std::string_view(value->text) : std::string_view();
}

// A turn of blocks becomes as many messages as a chat needs for it, in the order of the blocks. Keeps the first error.
class Conversation {
 public:
  explicit Conversation(TranslatedBody& out) : out_(out) {}

  void system(json::Value& content);
  void message(json::Value& message, const std::string& path);
  std::optional<ApiError> finish();

 private:
  using Parts = std::vector<json::Value>;
  void user_turn(json::Value& content, const std::string& path);
  void user_block(json::Value& block, const std::string& path, Parts& parts);
  void tool_result(json::Value& block, const std::string& path);
  void assistant_turn(json::Value& content, const std::string& path);
  void assistant_block(json::Value& block, const std::string& path, json::Value& content, std::string& reasoning,
                       json::Value& calls);
  void tool_use(json::Value& block, const std::string& path, json::Value& calls);
  std::optional<json::Value> texts(json::Value& content, const std::string& path);
  std::string take_text(json::Value& block, std::string_view name, const std::string& path);
  void document(json::Value& block, const std::string& path, Parts& parts);
  void flush(Parts& parts, const std::string& path);
  void push(json::Value message, const std::string& path);
  void refuse(const std::string& path, std::string message, std::string code = "invalid_value") {
    if (!error_) error_ = field_error(path, std::move(message), std::move(code));
  }
  void refuse_block(std::string_view type, const std::string& path, std::string_view role);

  TranslatedBody& out_;
  std::vector<json::Value> messages_;
  std::optional<ApiError> error_;
};

void Conversation::push(json::Value message, const std::string& path) {
  messages_.push_back(std::move(message));
  out_.messages.push_back(path);
}

// A required string, moved out of the block.
std::string Conversation::take_text(json::Value& block, std::string_view name, const std::string& path) {
  json::Value* text = block.find(name);
  if (text != nullptr && text->is_string()) return std::move(text->text);
  const std::string here = fmt::format("{}.{}", path, name);
  refuse(here, here + " must be a string", "invalid_type");
  return {};
}

void Conversation::refuse_block(std::string_view type, const std::string& path, std::string_view role) {
  if (is_image(type)) return refuse(path, std::string(kTextOnly), "unsupported_content_type");
  refuse(path + ".type", fmt::format("blocks of type \"{}\" are not served in {}", type, role), "unsupported_value");
}

// Nothing but text: a string, or text blocks.
std::optional<json::Value> Conversation::texts(json::Value& content, const std::string& path) {
  if (content.is_string()) return std::move(content);
  if (!content.is_array()) {
    refuse(path, path + " must be a string or an array of blocks", "invalid_type");
    return std::nullopt;
  }
  json::Value parts = array_value();
  for (std::size_t i = 0; i < content.items.size(); ++i) {
    const std::string here = at(path, i);
    const std::string type(text_member(content.items[i], "type"));
    if (type != "text") {
      refuse_block(type, here, "this place");
    } else {
      parts.items.push_back(text_part(take_text(content.items[i], "text", here)));
    }
  }
  return parts;
}

void Conversation::system(json::Value& content) {
  if (content.is_null()) return;
  auto read = texts(content, "system");
  if (read && (!read->text.empty() || !read->items.empty())) push(message_value("system", std::move(*read)), "system");
}

void Conversation::message(json::Value& message, const std::string& path) {
  if (!message.is_object()) return refuse(path, path + " must be an object", "invalid_type");
  const std::string role(text_member(message, "role"));
  json::Value* content = message.find("content");
  if (content == nullptr || content->is_null()) return refuse(path + ".content", "content is missing", "missing_field");
  const std::string here = path + ".content";
  if (role == "user") {
    user_turn(*content, here);
  } else if (role == "assistant") {
    assistant_turn(*content, here);
  } else if (role == "system") {
    // It stays where it was said, or what came before it would have to be computed anew.
    if (auto read = texts(*content, here)) push(message_value("system", std::move(*read)), path);
  } else {
    refuse(path + ".role", path + ".role must be user, assistant or system");
  }
}

void Conversation::flush(Parts& parts, const std::string& path) {
  if (parts.empty()) return;
  json::Value content = array_value();
  content.items = std::exchange(parts, {});
  push(message_value("user", std::move(content)), path);
}

void Conversation::user_turn(json::Value& content, const std::string& path) {
  if (content.is_string()) return push(message_value("user", std::move(content)), path);
  if (!content.is_array()) return refuse(path, path + " must be a string or an array of blocks", "invalid_type");
  if (content.items.empty()) return push(message_value("user", text_value("")), path);
  Parts parts;
  for (std::size_t i = 0; i < content.items.size(); ++i) user_block(content.items[i], at(path, i), parts);
  flush(parts, path);
}

void Conversation::user_block(json::Value& block, const std::string& path, Parts& parts) {
  const std::string type(text_member(block, "type"));
  if (type == "text") {
    parts.push_back(text_part(take_text(block, "text", path)));
  } else if (type == "tool_result") {
    flush(parts, path);
    tool_result(block, path);
  } else if (type == "document") {
    document(block, path, parts);
  } else {
    refuse_block(type, path, "a user's message");
  }
}

// One that is text already is a part like any other.
void Conversation::document(json::Value& block, const std::string& path, Parts& parts) {
  json::Value* source = block.find("source");
  if (source == nullptr || text_member(*source, "type") != "text") {
    return refuse(path + ".source", "only documents whose source is text are read here", "unsupported_content_type");
  }
  parts.push_back(text_part(take_text(*source, "data", path + ".source")));
}

// The chat format has no mark for a failed call; the model is told in words.
void Conversation::tool_result(json::Value& block, const std::string& path) {
  json::Value message = object_value();
  put(message, "role", text_value("tool"));
  put(message, "tool_call_id", text_value(take_text(block, "tool_use_id", path)));
  json::Value parts = array_value();
  const json::Value* failed = block.find("is_error");
  if (failed != nullptr && !failed->is_null() && !failed->is_bool())
    refuse(path + ".is_error", path + ".is_error must be a boolean", "invalid_type");
  if (failed != nullptr && failed->boolean) parts.items.push_back(text_part("The tool reported an error:\n"));
  json::Value* content = block.find("content");
  if (content != nullptr && !content->is_null()) {
    auto read = texts(*content, path + ".content");
    if (read && read->is_string()) parts.items.push_back(text_part(std::move(read->text)));
    if (read) std::move(read->items.begin(), read->items.end(), std::back_inserter(parts.items));
  }
  put(message, "content", std::move(parts));
  push(std::move(message), path);
}

void Conversation::assistant_turn(json::Value& content, const std::string& path) {
  if (content.is_string()) return push(message_value("assistant", std::move(content)), path);
  if (!content.is_array()) return refuse(path, path + " must be a string or an array of blocks", "invalid_type");
  json::Value said = array_value(), calls = array_value();
  std::string reasoning;
  for (std::size_t i = 0; i < content.items.size(); ++i) assistant_block(content.items[i], at(path, i), said, reasoning, calls);
  json::Value message = message_value("assistant", std::move(said));
  if (!reasoning.empty()) put(message, "reasoning_content", text_value(std::move(reasoning)));
  if (!calls.items.empty()) put(message, "tool_calls", std::move(calls));
  push(std::move(message), path);
}

void Conversation::assistant_block(json::Value& block, const std::string& path, json::Value& content, std::string& reasoning,
                                   json::Value& calls) {
  const std::string type(text_member(block, "type"));
  if (type == "text") {
    content.items.push_back(text_part(take_text(block, "text", path)));
  } else if (type == "thinking") {
    const std::string thought = take_text(block, "thinking", path);
    const std::string_view signature = text_member(block, "signature");
    const bool omitted = thought.empty() && signature.starts_with(kOwnThinking);
    reasoning += omitted ? signature.substr(kOwnThinking.size()) : std::string_view(thought);
  } else if (type == "tool_use") {
    tool_use(block, path, calls);
  } else if (type != "redacted_thinking") {
    // What was redacted is another's thought, and unreadable.
    refuse_block(type, path, "an assistant's message");
  }
}

void Conversation::tool_use(json::Value& block, const std::string& path, json::Value& calls) {
  json::Value function = object_value();
  std::string name = take_text(block, "name", path);
  if (name.empty()) refuse(path + ".name", path + ".name must not be empty");
  put(function, "name", text_value(std::move(name)));
  json::Value* input = block.find("input");
  if (input != nullptr && !input->is_object() && !input->is_null())
    refuse(path + ".input", path + ".input must be an object", "invalid_type");
  if (input != nullptr && input->is_object()) put(function, "arguments", std::move(*input));
  json::Value call = object_value();
  put(call, "id", text_value(take_text(block, "id", path)));
  put(call, "type", text_value("function"));
  put(call, "function", std::move(function));
  calls.items.push_back(std::move(call));
}

std::optional<ApiError> Conversation::finish() {
  if (error_) return error_;
  if (text_member(messages_.back(), "role") == "assistant") {
    out_.warnings.emplace_back("the last message is the assistant's: it is not continued, another one follows it");
  }
  json::Value messages = array_value();
  messages.items = std::move(messages_);
  put(out_.body, "messages", std::move(messages));
  return std::nullopt;
}

}  // namespace

std::optional<ApiError> read_conversation(json::Value& body, TranslatedBody& out) {
  json::Value* messages = body.find("messages");
  if (messages == nullptr || messages->is_null()) return field_error("messages", "messages is missing", "missing_field");
  if (!messages->is_array()) return field_error("messages", "messages must be an array", "invalid_type");
  if (messages->items.empty()) return field_error("messages", "messages must not be empty");
  Conversation conversation(out);
  if (json::Value* system = body.find("system")) conversation.system(*system);
  for (std::size_t i = 0; i < messages->items.size(); ++i) conversation.message(messages->items[i], at("messages", i));
  return conversation.finish();
}

}  // namespace k3::server
