// Reading a chat completion body: messages and tools are checked here, so that rendering has nothing left to refuse.
#include <algorithm>
#include <unordered_set>

#include "model/text/chat_format.hpp"
#include "model/text/chat_options.hpp"
#include "model/text/chat_tool_results.hpp"

namespace k3::text {
namespace {

std::string indexed(std::string_view name, std::size_t index) { return std::string(name) + "[" + std::to_string(index) + "]"; }

RequestFailure check_part(const json::Value& part, const std::string& path) {
  if (!part.is_object()) return RequestError{"a content part must be an object", path};
  const std::string_view type = text_member(part, "type");
  if (type == "image" || type == "image_url" || type == "input_image") {
    return RequestError{"unsupported content type: this server reads text only, no images", path, "unsupported_content_type"};
  }
  if (type != "text") return RequestError{"unsupported content type: only text parts are supported", path + ".type"};
  const json::Value* text = part.find("text");
  if (!text || !text->is_string()) return RequestError{"must be a string", path + ".text"};
  return {};
}

RequestFailure check_content(const json::Value& message, const std::string& path) {
  const json::Value* content = present(message, "content");
  if (!content || content->is_string()) return {};
  const std::string here = path + ".content";
  if (!content->is_array()) return RequestError{"must be a string, null or an array of parts", here};
  for (std::size_t i = 0; i < content->items.size(); ++i) {
    if (auto failure = check_part(content->items[i], indexed(here, i))) return failure;
  }
  return {};
}

RequestFailure check_strings(const json::Value& message, std::initializer_list<std::string_view> keys, const std::string& path) {
  for (const std::string_view key : keys) {
    const json::Value* value = present(message, key);
    if (value && !value->is_string()) return RequestError{"must be a string", path + "." + std::string(key)};
  }
  return {};
}

RequestFailure check_tool(const json::Value& tool, const std::string& path) {
  if (!tool.is_object()) return RequestError{"must be an object", path};
  if (text_member(tool, "type") != "function") return RequestError{"must be function", path + ".type"};
  const json::Value* function = present(tool, "function");
  if (!function || !function->is_object()) return RequestError{"must be an object", path + ".function"};
  const std::string nest = path + ".function";
  if (text_member(*function, "name").empty()) return RequestError{"must be a string, not empty", nest + ".name"};
  const json::Value* parameters = present(*function, "parameters");
  if (parameters && !parameters->is_object()) return RequestError{"must be an object (a JSON schema)", nest + ".parameters"};
  const json::Value* strict = present(*function, "strict");
  if (strict && !strict->is_bool()) return RequestError{"must be a boolean", nest + ".strict"};
  return check_strings(*function, {"description"}, nest);
}

RequestFailure check_tools(const json::Value& tools, const std::string& path) {
  if (!tools.is_array()) return RequestError{"must be an array", path};
  for (std::size_t i = 0; i < tools.items.size(); ++i) {
    if (auto failure = check_tool(tools.items[i], indexed(path, i))) return failure;
  }
  return {};
}

RequestFailure check_calls(const json::Value& message, const std::string& path) {
  const json::Value* calls = present(message, "tool_calls");
  if (!calls) return {};
  const std::string here = path + ".tool_calls";
  if (!calls->is_array()) return RequestError{"must be an array", here};
  for (std::size_t i = 0; i < calls->items.size(); ++i) {
    const json::Value& call = calls->items[i];
    const std::string at = indexed(here, i);
    if (!call.is_object()) return RequestError{"must be an object", at};
    const json::Value* function = present(call, "function");
    if (function && !function->is_object()) return RequestError{"must be an object", at + ".function"};
    const std::string nest = function ? at + ".function" : at;
    if (call_name(call).empty()) return RequestError{"must be a string, not empty", nest + ".name"};
    const json::Value* arguments = call_arguments(call);
    if (arguments && !arguments->is_null() && !arguments->is_string() && !arguments->is_object()) {
      return RequestError{"must be a string or an object", nest + ".arguments"};
    }
    if (auto failure = check_strings(call, {"id"}, at)) return failure;
  }
  return {};
}

bool is_empty_content(const json::Value& message) {
  const json::Value* content = present(message, "content");
  if (!content) return true;
  return std::ranges::all_of(content->items, [](const json::Value& part) { return text_member(part, "text").empty(); }) &&
         content->text.empty();
}

// Tools declared by a message: only a system message may, and only instead of a text.
RequestFailure check_dynamic_tools(const json::Value& message, const std::string& path) {
  const json::Value* tools = present(message, "tools");
  if (!tools || (tools->is_array() && tools->items.empty())) return {};
  const std::string here = path + ".tools";
  if (text_member(message, "role") != "system") return RequestError{"only a system message may declare tools", here};
  if (auto failure = check_tools(*tools, here)) return failure;
  if (!is_empty_content(message)) return RequestError{"must be empty in a message that declares tools", path + ".content"};
  return {};
}

RequestFailure read_message(json::Value& message, const std::string& path) {
  if (!message.is_object()) return RequestError{"must be an object", path};
  const std::string role(text_member(message, "role"));
  if (role == "developer") {
    for (json::Member& member : message.members) {
      if (member.key == "role") member.value.text = "system";
    }
  } else if (role != "system" && role != "user" && role != "assistant" && role != "tool") {
    return RequestError{"must be system, developer, user, assistant or tool", path + ".role"};
  }
  if (auto failure = check_content(message, path)) return failure;
  if (auto failure = check_strings(message, {"name"}, path)) return failure;
  if (role == "assistant") {
    if (auto failure = check_strings(message, {"reasoning_content", "reasoning"}, path)) return failure;
    if (auto failure = check_calls(message, path)) return failure;
  }
  if (role == "tool") {
    if (auto failure = check_strings(message, {"tool_call_id", "id", "tool"}, path)) return failure;
    const auto has = [&](std::string_view key) { return !text_member(message, key).empty(); };
    if (!has("tool_call_id") && !has("id") && !has("name") && !has("tool")) {
      return RequestError{"a tool message must say which call it answers", path + ".tool_call_id"};
    }
  }
  return check_dynamic_tools(message, path);
}

// A call names its tool and nothing else, so a name stands for one tool in the whole request.
RequestFailure check_names(const ChatRequest& request) {
  std::unordered_set<std::string_view> names;
  const auto check = [&](const std::vector<json::Value>& tools, const std::string& path) -> RequestFailure {
    for (std::size_t i = 0; i < tools.size(); ++i) {
      const std::string_view name = call_name(tools[i]);
      if (names.insert(name).second) continue;
      return RequestError{"a tool named " + json::quoted(name) + " is declared already", indexed(path, i) + ".function.name"};
    }
    return {};
  };
  if (auto failure = check(request.tools.items, "tools")) return failure;
  for (std::size_t i = 0; i < request.messages.size(); ++i) {
    const json::Value* tools = request.messages[i].find("tools");
    if (!tools) continue;
    if (auto failure = check(tools->items, indexed("messages", i) + ".tools")) return failure;
  }
  return {};
}

RequestFailure read_messages(json::Value& body, ChatRequest& out) {
  json::Value* messages = body.find("messages");
  if (!messages || !messages->is_array()) return RequestError{"must be an array", "messages"};
  if (messages->items.empty()) return RequestError{"must not be empty", "messages"};
  out.messages = std::move(messages->items);  // they may be most of a large body
  for (std::size_t i = 0; i < out.messages.size(); ++i) {
    if (auto failure = read_message(out.messages[i], indexed("messages", i))) return failure;
  }
  const auto turns = arrange_turns(out.messages);
  if (!turns) return turns.error();
  return {};
}

RequestFailure read_tools(const json::Value& body, ChatRequest& out) {
  const json::Value* tools = present(body, "tools");
  if (!tools) return {};
  if (auto failure = check_tools(*tools, "tools")) return failure;
  if (!tools->items.empty()) out.tools = *tools;
  return {};
}

}  // namespace

boost::system::result<ChatRequest, RequestError> read_chat_request(json::Value body, const ThinkingDefault& thinking) {
  if (!body.is_object()) return RequestError{"the request must be a JSON object", ""};
  ChatRequest request;
  if (auto failure = read_messages(body, request)) return *failure;
  if (auto failure = read_tools(body, request)) return *failure;
  if (auto failure = check_names(request)) return *failure;
  if (auto failure = read_thinking(body, thinking, request)) return *failure;
  if (auto failure = read_tool_choice(body, request)) return *failure;
  if (auto failure = read_parallel_calls(body, request)) return *failure;
  if (auto failure = read_response_format(body, request)) return *failure;
  return request;
}

RequestFailure check_hosted_rules(const ChatRequest& request) {
  for (std::size_t i = 0; i < request.messages.size(); ++i) {
    const json::Value& message = request.messages[i];
    const std::string_view role = text_member(message, "role");
    if (role == "tool" && text_member(message, "tool_call_id").empty()) {
      return RequestError{"a tool message must say which call it answers", indexed("messages", i) + ".tool_call_id"};
    }
    if (role == "user" && !present(message, "content")) {
      return RequestError{"a user's message must have a content: a string or an array of parts",
                          indexed("messages", i) + ".content"};
    }
  }
  return {};
}

}  // namespace k3::text
