#include "server/responses_request.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "server/responses_input.hpp"

namespace k3::server {
namespace {

constexpr std::string_view kRead[] = {
    "input",    "instructions",      "tools",   "tool_choice",          "parallel_tool_calls", "reasoning",
    "text",     "max_output_tokens", "include", "previous_response_id", "background",          "store",
    "metadata", "conversation",      "prompt",  "stream_options"};

constexpr FieldName kNames[] = {{"max_tokens", "max_output_tokens"},
                                {"messages", "input"},
                                {"reasoning_effort", "reasoning.effort"},
                                {"response_format", "text.format"},
                                {"tool_call_id", "call_id"}};

// What agents name in every request and get on without: what a provider runs by itself, and bundles of tools beside the main ones,
// whose calls have a form of their own.
constexpr std::string_view kLeftOut[] = {"web_search", "web_search_preview", "image_generation", "namespace"};

// What was said elsewhere cannot be answered here, and leaving it out would answer something else.
void refuse_memory(Fields& fields) {
  for (const std::string_view name : {"previous_response_id", "conversation", "prompt"}) {
    if (fields.find(name) == nullptr) continue;
    fields.refuse(name, fmt::format("{} is not served: nothing is stored here, so send all of the conversation as input", name),
                  "unsupported_value");
  }
  if (fields.boolean("background", false)) {
    fields.refuse("background", "background is not served: nothing is stored here, so an answer lasts as long as its connection",
                  "unsupported_value");
  }
}

void read_reasoning(Fields& fields, TranslatedBody& out) {
  const json::Value* reasoning = fields.object("reasoning");
  if (reasoning == nullptr) return;
  if (const json::Value* effort = reasoning->find("effort")) put(out.body, "reasoning_effort", *effort);
}

// The same format as that of a chat, without its wrapping.
void read_format(Fields& fields, TranslatedBody& out) {
  const json::Value* text = fields.object("text");
  if (text == nullptr) return;
  Fields nested(*text, "text.");
  if (const json::Value* format = nested.object("format")) {
    Fields inner(*format, "text.format.");
    const json::Value* schema = inner.object("schema");
    if (inner.string("type", {}) != "json_schema") {
      put(out.body, "response_format", *format);
    } else if (schema == nullptr) {
      inner.refuse("schema", "text.format.schema is missing", "missing_field");
    } else {
      json::Value wrapped = schema_format(inner.string("name", {}), *schema);
      if (inner.find("strict") != nullptr) put(*wrapped.find("json_schema"), "strict", bool_value(inner.boolean("strict", true)));
      if (inner.find("name") == nullptr) inner.refuse("name", "text.format.name is missing", "missing_field");
      put(out.body, "response_format", std::move(wrapped));
    }
    nested.adopt(inner);
  }
  fields.adopt(nested);
}

void read_function(Fields& nested, const std::string& path, TranslatedBody& out) {
  json::Value function = object_value();
  for (const std::string_view name : {"name", "description", "parameters", "strict"}) {
    if (const json::Value* value = nested.find(name)) put(function, name, *value);
  }
  json::Value wrapped = object_value();
  put(wrapped, "type", text_value("function"));
  put(wrapped, "function", std::move(function));
  out.body.find("tools")->items.push_back(std::move(wrapped));
  out.tools.push_back(path);
}

void read_tools(Fields& fields, TranslatedBody& out) {
  const json::Value* tools = fields.array("tools");
  if (tools == nullptr) return;
  put(out.body, "tools", array_value());
  for (std::size_t i = 0; i < tools->items.size(); ++i) {
    const std::string path = at("tools", i);
    if (!tools->items[i].is_object()) return fields.refuse(path, path + " must be an object", "invalid_type");
    Fields nested(tools->items[i], path + ".");
    const std::string type = nested.string("type", {});
    if (type == "function") {
      read_function(nested, path, out);
    } else if (std::find(std::begin(kLeftOut), std::end(kLeftOut), type) != std::end(kLeftOut)) {
      out.ignored.push_back(fmt::format("{}:{}", path, type));
    } else {
      nested.refuse("type", fmt::format("{}.type: tools of type \"{}\" are not served here, only functions", path, type),
                    "unsupported_value");
    }
    fields.adopt(nested);
  }
}

void read_tool_choice(Fields& fields, TranslatedBody& out) {
  const json::Value* choice = fields.find("tool_choice");
  if (choice == nullptr) return;
  if (!choice->is_object()) return put(out.body, "tool_choice", *choice);
  Fields nested(*choice, "tool_choice.");
  if (nested.string("type", {}) != "function") {
    nested.refuse("type",
                  "tool_choice must be auto, none, required or {\"type\": \"function\", \"name\": ...}: see tool_choice.type",
                  "unsupported_value");
  }
  json::Value function = object_value();
  put(function, "name", text_value(nested.string("name", {})));
  json::Value named = object_value();
  put(named, "type", text_value("function"));
  put(named, "function", std::move(function));
  put(out.body, "tool_choice", std::move(named));
  fields.adopt(nested);
}

}  // namespace

std::span<const FieldName> responses_names() { return kNames; }

Translation translate_response(json::Value body) {
  TranslatedBody out;
  take_common(body, kRead, out);
  Fields fields(body);
  refuse_memory(fields);
  if (const json::Value* most = fields.find("max_output_tokens")) put(out.body, "max_tokens", *most);
  if (const json::Value* parallel = fields.find("parallel_tool_calls")) put(out.body, "parallel_tool_calls", *parallel);
  static_cast<void>(fields.boolean("store", false));
  static_cast<void>(fields.object("metadata"));
  static_cast<void>(fields.array("include"));
  read_reasoning(fields, out);
  read_format(fields, out);
  read_tools(fields, out);
  read_tool_choice(fields, out);
  const std::string instructions = fields.string("instructions", {});
  if (fields.error()) return *fields.error();
  if (auto error = read_input(body, instructions, out)) return std::move(*error);
  return out;
}

}  // namespace k3::server
