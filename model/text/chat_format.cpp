// Rendering: the order and the wording of the prompt are the reference template's; so is the cut into segments, because each is
// tokenised alone.
#include "model/text/chat_format.hpp"

#include "model/text/arguments.hpp"
#include "model/text/chat_tool_results.hpp"

namespace k3::text {
namespace {

constexpr json::PythonStyle schema_style{true, ",", ":"};

std::string escape_attribute(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '&') {
      out += "&amp;";
    } else if (c == '"') {
      out += "&quot;";
    } else {
      out += c;
    }
  }
  return out;
}

struct Attribute {
  std::string_view key;
  std::string_view value;
};

// The only place that makes segments with allow_special.
class Prompt {
 public:
  void open(std::string_view tag, std::initializer_list<Attribute> attributes = {}) {
    control("<|open|>");
    text(tag);
    for (const Attribute& attribute : attributes) {
      if (attribute.key.empty()) continue;
      // Four pieces, not one: joined they would tokenise differently for odd values.
      text(" " + std::string(attribute.key));
      text("=\"");
      text(escape_attribute(attribute.value));
      text("\"");
    }
    control("<|sep|>");
  }
  void close(std::string_view tag) {
    control("<|close|>");
    text(tag);
    control("<|sep|>");
  }
  void end_message() {
    close("message");
    control("<|end_of_msg|>");
  }
  void text(std::string_view body) {
    if (!body.empty()) segments_.push_back({std::string(body), false});
  }
  std::vector<Segment> take() { return std::move(segments_); }

 private:
  void control(std::string_view name) { segments_.push_back({std::string(name), true}); }
  std::vector<Segment> segments_;
};

void option_message(Prompt& prompt, std::string_view type, std::string_view body) {
  prompt.open("message", {{"role", "system"}, {"type", type}});
  prompt.text(body);
  prompt.end_message();
}

void tool_declaration(Prompt& prompt, std::string_view introduction, const json::Value& tools) {
  option_message(prompt, "tool-declare",
                 std::string(introduction) + "\n\n```json\n" + json::python_dumps(tools, schema_style) + "\n```");
}

constexpr std::string_view global_tools = "# Tools\nHere are the available tools, described in JSONSchema.";
constexpr std::string_view dynamic_tools =
    "## New Tools Available\nThe system dynamically extends the toolset via lazy-loading.\n"
    "You have access to all existing and extended tools.\nHere are the specs for the extended tools.";

void effort_message(Prompt& prompt, Effort effort) {
  const std::string_view name = effort == Effort::low ? "low" : effort == Effort::high ? "high" : "max";
  option_message(prompt, "thinking-effort",
                 "`thinking_effort` guides on how much to think in your thinking channel (not including the response channel), "
                 "supported values include `low`, `medium`, `high`, and `max`.\n"
                 "Now the system is invoked with `thinking_effort=" +
                     std::string(name) + "`.");
}

void tool_choice_message(Prompt& prompt, ToolChoice choice) {
  if (choice == ToolChoice::automatic) return;
  const bool required = choice == ToolChoice::required;
  option_message(prompt, "tool-choice",
                 std::string("The system is invoked with `tool_choice=") + (required ? "required" : "none") + "`.\nYou MUST " +
                     (required ? "call tools" : "NOT call any tools") + " in the next message.");
}

void response_format_message(Prompt& prompt, const json::Value& format) {
  const std::string_view type = text_member(format, "type");
  if (type != "json_object" && type != "json_schema") return;
  std::string body = "The system is invoked with `response_format=" + std::string(type) +
                     "`.\nYour response must be raw JSON data without markdown code blocks (```json) or any additional formatting.";
  if (type == "json_schema") {
    const json::Value* schema = format.find("json_schema");
    const json::Value* inner = schema ? schema->find("schema") : nullptr;
    const json::Value& shown = inner ? *inner : schema ? *schema : format;
    body += "\nThe JSON data must match the following schema:\n```json\n" + json::python_dumps(shown, schema_style) + "\n```";
  }
  option_message(prompt, "response-format", body);
}

void content(Prompt& prompt, const json::Value& message) {
  const json::Value* value = message.find("content");
  if (!value) return;
  if (value->is_string()) prompt.text(value->text);
  for (const json::Value& part : value->items) prompt.text(text_member(part, "text"));
}

void arguments(Prompt& prompt, const json::Value* given) {
  if (!given || given->is_null() || (given->is_string() && given->text.empty())) return;
  const auto parts = given->is_string() ? arguments_of(given->text) : arguments_of(*given);
  if (!parts) {
    prompt.open("json", {{"type", "object"}});
    prompt.text(given->text);
    prompt.close("json");
    return;
  }
  for (const Argument& argument : *parts) {
    prompt.open("argument", {{"key", argument.key}, {"type", argument.type}});
    prompt.text(argument.text);
    prompt.close("argument");
  }
}

void tool_calls(Prompt& prompt, const json::Value& message) {
  const json::Value* calls = message.find("tool_calls");
  if (!calls || calls->items.empty()) return;
  prompt.open("tools");
  std::size_t number = 0;
  for (const json::Value& call : calls->items) {
    prompt.open("call", {{"tool", call_name(call)}, {"index", std::to_string(++number)}});
    arguments(prompt, call_arguments(call));
    prompt.close("call");
  }
  prompt.close("tools");
}

void assistant(Prompt& prompt, const json::Value& message, bool thinking) {
  if (thinking) {
    const std::string_view reasoning = text_member(message, "reasoning_content");
    prompt.open("think");
    prompt.text(reasoning.empty() ? text_member(message, "reasoning") : reasoning);
    prompt.close("think");
  }
  prompt.open("response");
  content(prompt, message);
  prompt.close("response");
  tool_calls(prompt, message);
}

void turn(Prompt& prompt, const Turn& turn, bool thinking) {
  const json::Value& message = *turn.message;
  const std::string_view role = text_member(message, "role");
  const json::Value* tools = message.find("tools");
  if (role == "system" && tools && !tools->items.empty()) return tool_declaration(prompt, dynamic_tools, *tools);
  if (role == "tool") {
    prompt.open("message", {{"role", role}, {"tool", turn.tool}, {"index", std::to_string(turn.number)}});
  } else {
    const std::string_view name = text_member(message, "name");
    prompt.open("message", {{"role", role}, {name.empty() ? std::string_view() : "name", name}});
  }
  if (role == "assistant") {
    assistant(prompt, message, thinking);
  } else {
    content(prompt, message);
  }
  prompt.end_message();
}

}  // namespace

Result<std::vector<Segment>> render(const ChatRequest& request) {
  const auto turns = arrange_turns(request.messages);
  if (!turns) return fail(ErrorCode::invalid_argument, turns.error().param + ": " + turns.error().message);
  Prompt prompt;
  if (!request.tools.items.empty()) tool_declaration(prompt, global_tools, request.tools);
  if (request.thinking && request.effort) effort_message(prompt, *request.effort);
  for (const Turn& each : *turns) turn(prompt, each, request.thinking);
  tool_choice_message(prompt, request.tool_choice);
  response_format_message(prompt, request.response_format);
  prompt.open("message", {{"role", "assistant"}});
  prompt.open(request.thinking ? "think" : "response");
  return prompt.take();
}

}  // namespace k3::text
