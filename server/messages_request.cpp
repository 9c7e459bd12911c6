#include "server/messages_request.hpp"

#include <fmt/format.h>

#include <limits>

#include "server/messages_content.hpp"

namespace k3::server {
namespace {

constexpr std::string_view kRead[] = {"messages",      "system",        "tools",      "tool_choice",   "thinking",
                                      "output_config", "cache_control", "max_tokens", "stop_sequences"};

constexpr FieldName kNames[] = {{"stop", "stop_sequences"},
                                {"reasoning_effort", "output_config.effort"},
                                {"response_format", "output_config.format"},
                                {"parallel_tool_calls", "tool_choice.disable_parallel_tool_use"},
                                {"tool_call_id", "tool_use_id"},
                                {"parameters", "input_schema"}};

// What a budget is in the words that the model knows; it is kept to besides.
std::string_view effort_of(std::int64_t budget) { return budget <= 4096 ? "low" : budget <= 16'384 ? "high" : "max"; }

void read_thinking(Fields& fields, TranslatedBody& out) {
  const json::Value* thinking = fields.object("thinking");
  if (thinking == nullptr) return;
  Fields nested(*thinking, "thinking.");
  const std::string type = nested.string("type", {});
  if (type != "enabled" && type != "adaptive" && type != "disabled")
    nested.refuse("type", "thinking.type must be enabled, adaptive or disabled");
  const std::string display = nested.string("display", "summarized");
  if (display != "summarized" && display != "omitted") nested.refuse("display", "thinking.display must be summarized or omitted");
  out.omit_thinking = display == "omitted";
  const auto budget = nested.integer("budget_tokens", 1, std::numeric_limits<std::int64_t>::max());
  fields.adopt(nested);
  json::Value wanted = object_value();
  put(wanted, "type", text_value(type == "disabled" ? type : "enabled"));
  put(out.body, "thinking", std::move(wanted));
  if (!budget || type != "enabled") return;
  put(out.body, "reasoning_budget", number_value(*budget));
  put(out.body, "reasoning_effort", text_value(std::string(effort_of(*budget))));
}

// An effort that is named outranks one that was made of a budget: of two members the last is read.
void read_output_config(Fields& fields, TranslatedBody& out) {
  const json::Value* config = fields.object("output_config");
  if (config == nullptr) return;
  Fields nested(*config, "output_config.");
  if (const json::Value* effort = nested.find("effort")) put(out.body, "reasoning_effort", *effort);
  if (const json::Value* format = nested.object("format")) {
    Fields inner(*format, "output_config.format.");
    if (inner.string("type", {}) != "json_schema") inner.refuse("type", "output_config.format.type must be json_schema");
    const json::Value* schema = inner.object("schema");
    if (schema == nullptr) inner.refuse("schema", "output_config.format.schema is missing", "missing_field");
    if (schema != nullptr) put(out.body, "response_format", schema_format("output", *schema));
    nested.adopt(inner);
  }
  fields.adopt(nested);
}

void read_tool_choice(Fields& fields, TranslatedBody& out) {
  const json::Value* choice = fields.object("tool_choice");
  if (choice == nullptr) return;
  Fields nested(*choice, "tool_choice.");
  const std::string type = nested.string("type", {});
  if (nested.boolean("disable_parallel_tool_use", false)) put(out.body, "parallel_tool_calls", bool_value(false));
  if (type == "tool") {
    json::Value function = object_value();
    put(function, "name", text_value(nested.string("name", {})));
    json::Value named = object_value();
    put(named, "type", text_value("function"));
    put(named, "function", std::move(function));
    put(out.body, "tool_choice", std::move(named));
  } else if (type == "auto" || type == "any" || type == "none") {
    put(out.body, "tool_choice", text_value(type == "any" ? "required" : type));
  } else {
    nested.refuse("type", "tool_choice.type must be auto, any, tool or none");
  }
  fields.adopt(nested);
}

// Tools that a provider brings along (a shell, a browser, a search) have no schema, and the model was never taught them.
void read_tool(Fields& fields, const json::Value& tool, std::size_t index, TranslatedBody& out) {
  const std::string path = at("tools", index);
  if (!tool.is_object()) return fields.refuse(path, path + " must be an object", "invalid_type");
  Fields nested(tool, path + ".");
  const std::string type = nested.string("type", "custom");
  if (type != "custom") {
    nested.refuse("type", fmt::format("{}.type: tools of type {} are not served here, only those with an input_schema", path, type),
                  "unsupported_value");
  }
  json::Value function = object_value();
  put(function, "name", text_value(nested.string("name", {})));
  if (nested.find("description") != nullptr) put(function, "description", text_value(nested.string("description", {})));
  const json::Value* schema = nested.object("input_schema");
  if (schema == nullptr) nested.refuse("input_schema", path + ".input_schema is missing", "missing_field");
  if (schema != nullptr) put(function, "parameters", *schema);
  if (nested.boolean("strict", false)) put(function, "strict", bool_value(true));
  json::Value wrapped = object_value();
  put(wrapped, "type", text_value("function"));
  put(wrapped, "function", std::move(function));
  json::Value* tools = out.body.find("tools");
  tools->items.push_back(std::move(wrapped));
  out.tools.push_back(path);
  fields.adopt(nested);
}

void read_tools(Fields& fields, TranslatedBody& out) {
  const json::Value* tools = fields.array("tools");
  if (tools == nullptr) return;
  put(out.body, "tools", array_value());
  for (std::size_t i = 0; i < tools->items.size(); ++i) read_tool(fields, tools->items[i], i, out);
}

void read_length(Fields& fields, bool counting, TranslatedBody& out) {
  const auto most = fields.integer("max_tokens", 1, std::numeric_limits<std::int64_t>::max());
  if (!most && !counting) fields.refuse("max_tokens", "max_tokens is missing", "missing_field");
  if (const json::Value* tokens = fields.find("max_tokens")) put(out.body, "max_tokens", *tokens);
  if (const json::Value* stops = fields.array("stop_sequences")) put(out.body, "stop", *stops);
}

}  // namespace

std::span<const FieldName> messages_names() { return kNames; }

Translation translate_messages(json::Value body, bool counting) {
  TranslatedBody out;
  take_common(body, kRead, out);
  Fields fields(body);
  read_length(fields, counting, out);
  read_thinking(fields, out);
  read_output_config(fields, out);
  read_tools(fields, out);
  read_tool_choice(fields, out);
  if (fields.error()) return *fields.error();
  if (auto error = read_conversation(body, out)) return std::move(*error);
  return out;
}

}  // namespace k3::server
