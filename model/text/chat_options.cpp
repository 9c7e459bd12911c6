#include "model/text/chat_options.hpp"

#include "model/text/chat_tool_results.hpp"

namespace k3::text {
namespace {

constexpr const char* tool_choice_forms = "must be auto, none, required or {\"type\": \"function\", \"function\": {\"name\": …}}";

// What one spelling of the effort says: a tier, no effort message, or no thinking.
struct EffortChoice {
  std::optional<Effort> effort;
  bool off = false;
};

using EffortResult = boost::system::result<EffortChoice, RequestError>;

// `reasoning_effort` and `thinking.effort` also take other vendors' names, rounded to the nearest tier.
EffortResult named_effort(const json::Value& value, std::string param) {
  const std::string_view name = value.is_string() ? std::string_view(value.text) : std::string_view();
  if (name == "none") return EffortChoice{std::nullopt, true};
  if (name == "low" || name == "minimal") return EffortChoice{Effort::low};
  if (name == "high" || name == "medium") return EffortChoice{Effort::high};
  if (name == "max" || name == "xhigh") return EffortChoice{Effort::max};
  return RequestError{"must be one of none, minimal, low, medium, high, xhigh, max", std::move(param)};
}

EffortResult template_effort(const json::Value& value, std::string param) {
  const std::string_view name = value.is_string() ? std::string_view(value.text) : std::string_view();
  if (value.is_null()) return EffortChoice{};
  if (name == "low") return EffortChoice{Effort::low};
  if (name == "high") return EffortChoice{Effort::high};
  if (name == "max") return EffortChoice{Effort::max};
  return RequestError{"must be low, high, max or null", std::move(param)};
}

RequestFailure must_be_object(const json::Value* value, std::string param) {
  if (value && !value->is_object()) return RequestError{"must be an object", std::move(param)};
  return {};
}

// Applies a boolean switch if it is there.
RequestFailure read_switch(const json::Value* object, std::string_view key, std::string_view parent, bool& thinking) {
  const json::Value* value = object ? present(*object, key) : nullptr;
  if (!value) return {};
  if (!value->is_bool()) return RequestError{"must be a boolean", std::string(parent) + "." + std::string(key)};
  thinking = value->boolean;
  return {};
}

bool names_tool(const json::Value& tools, std::string_view name) {
  for (const json::Value& tool : tools.items) {
    if (call_name(tool) == name) return true;
  }
  return false;
}

// Over the global tools and those that system messages add.
template <class Predicate>
bool any_tools(const ChatRequest& request, Predicate&& matches) {
  if (!request.tools.items.empty() && matches(request.tools)) return true;
  for (const json::Value& message : request.messages) {
    const json::Value* tools = message.find("tools");
    if (tools && !tools->items.empty() && matches(*tools)) return true;
  }
  return false;
}

}  // namespace

RequestFailure read_thinking(const json::Value& body, const ThinkingDefault& otherwise, ChatRequest& out) {
  const json::Value* object = present(body, "thinking");
  const json::Value* kwargs = present(body, "chat_template_kwargs");
  if (auto failure = must_be_object(object, "thinking")) return failure;
  if (auto failure = must_be_object(kwargs, "chat_template_kwargs")) return failure;

  // Every spelling is checked, from the weakest to the strongest; the last one present wins. The default is weaker than any.
  EffortChoice choice{otherwise.effort, !otherwise.on};
  bool thinking = otherwise.on;
  if (const json::Value* value = present(body, "reasoning_effort")) {
    auto read = named_effort(*value, "reasoning_effort");
    if (!read) return read.error();
    choice = *read;
    thinking = !choice.off;
  }
  if (const json::Value* type = object ? present(*object, "type") : nullptr) {
    const bool known = type->is_string() && (type->text == "enabled" || type->text == "disabled");
    if (!known) return RequestError{"must be enabled or disabled", "thinking.type"};
    thinking = type->text == "enabled";
  }
  if (const json::Value* value = object ? present(*object, "effort") : nullptr) {
    auto read = named_effort(*value, "thinking.effort");
    if (!read) return read.error();
    // It outranks `reasoning_effort`, whose "none" it takes back; but it does not undo an explicit "disabled".
    if (choice.off && !present(*object, "type")) thinking = true;
    choice = *read;
    if (choice.off) thinking = false;
  }
  // The one null with a meaning, so find() and not present().
  if (const json::Value* value = kwargs ? kwargs->find("thinking_effort") : nullptr) {
    auto read = template_effort(*value, "chat_template_kwargs.thinking_effort");
    if (!read) return read.error();
    if (choice.off && !value->is_null() && !(object && present(*object, "type"))) thinking = true;
    choice = *read;
  }
  if (auto failure = read_switch(kwargs, "enable_thinking", "chat_template_kwargs", thinking)) return failure;
  if (auto failure = read_switch(kwargs, "thinking", "chat_template_kwargs", thinking)) return failure;
  out.thinking = thinking;
  // Thinking switched on against a weaker "none" gets the default effort.
  out.effort = choice.off ? otherwise.effort : choice.effort;
  return {};
}

RequestFailure read_tool_choice(const json::Value& body, ChatRequest& out) {
  const json::Value* choice = present(body, "tool_choice");
  if (!choice) return {};
  if (choice->is_string()) {
    if (choice->text == "auto") return {};
    if (choice->text == "none") {
      out.tool_choice = ToolChoice::none;
      return {};
    }
    if (choice->text == "required") {
      if (!any_tools(out, [](const json::Value&) { return true; })) {
        return RequestError{"tool_choice is required, but the request has no tools", "tool_choice"};
      }
      out.tool_choice = ToolChoice::required;
      return {};
    }
    return RequestError{tool_choice_forms, "tool_choice"};
  }
  if (!choice->is_object()) return RequestError{tool_choice_forms, "tool_choice"};
  if (text_member(*choice, "type") != "function") {
    return RequestError{std::string("must be function, as tool_choice ") + tool_choice_forms, "tool_choice.type"};
  }
  const json::Value* function = choice->find("function");
  const std::string_view name = function ? text_member(*function, "name") : std::string_view();
  if (name.empty()) return RequestError{"must be the name of one of the request's tools", "tool_choice.function.name"};
  if (!any_tools(out, [name](const json::Value& tools) { return names_tool(tools, name); })) {
    return RequestError{"names no tool of this request", "tool_choice.function.name"};
  }
  out.tool_name = name;
  return {};
}

RequestFailure read_parallel_calls(const json::Value& body, ChatRequest& out) {
  const json::Value* parallel = present(body, "parallel_tool_calls");
  if (!parallel) return {};
  if (!parallel->is_bool()) return RequestError{"must be a boolean", "parallel_tool_calls"};
  out.parallel_calls = parallel->boolean;
  return {};
}

RequestFailure read_response_format(const json::Value& body, ChatRequest& out) {
  const json::Value* format = present(body, "response_format");
  if (!format) return {};
  if (!format->is_object()) return RequestError{"must be an object", "response_format"};
  const std::string_view type = text_member(*format, "type");
  if (type == "text") return {};
  if (type != "json_object" && type != "json_schema") {
    return RequestError{"must be text, json_object or json_schema", "response_format.type"};
  }
  if (type == "json_schema") {
    const json::Value* schema = present(*format, "json_schema");
    if (!schema || !schema->is_object()) return RequestError{"must be an object", "response_format.json_schema"};
    if (text_member(*schema, "name").empty())
      return RequestError{"must be a string, not empty", "response_format.json_schema.name"};
    const json::Value* inner = present(*schema, "schema");
    if (!inner || !inner->is_object()) return RequestError{"must be an object", "response_format.json_schema.schema"};
    const json::Value* strict = present(*schema, "strict");
    if (strict && !strict->is_bool()) return RequestError{"must be a boolean", "response_format.json_schema.strict"};
  }
  out.response_format = *format;
  return {};
}

}  // namespace k3::text
