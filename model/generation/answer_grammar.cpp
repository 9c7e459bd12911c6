#include "model/generation/answer_grammar.hpp"

#include <algorithm>
#include <optional>

#include "model/generation/answer_form.hpp"
#include "model/grammar/json_schema.hpp"

namespace k3::generation {
namespace {

using grammar::Rules;
using text::ChatRequest;
using text::RequestError;
using text::ToolChoice;
using E = grammar::Expression;
template <class T>
using Read = boost::system::result<T, RequestError>;

struct Tool {
  const json::Value* function;
  std::string param;  // where it stands in the request
};

const json::Value* object_member(const json::Value* value, std::string_view key) {
  const json::Value* member = value == nullptr ? nullptr : value->find(key);
  return member != nullptr && member->is_object() ? member : nullptr;
}

bool is_strict(const json::Value* value) {
  const json::Value* strict = value == nullptr ? nullptr : value->find("strict");
  return strict != nullptr && strict->is_bool() && strict->boolean;
}

void add_tools(const json::Value& list, const std::string& path, std::vector<Tool>& out) {
  for (std::size_t i = 0; i < list.items.size(); ++i) {
    const std::string param = path + "[" + std::to_string(i) + "].function";
    if (const json::Value* function = object_member(&list.items[i], "function")) out.push_back({function, param});
  }
}

std::vector<Tool> tools_of(const ChatRequest& request) {
  std::vector<Tool> out;
  add_tools(request.tools, "tools", out);
  for (std::size_t i = 0; i < request.messages.size(); ++i) {
    const json::Value* tools = request.messages[i].find("tools");
    if (tools != nullptr && tools->is_array()) add_tools(*tools, "messages[" + std::to_string(i) + "].tools", out);
  }
  return out;
}

RequestError unfit(const grammar::SchemaError& error, std::string param) {
  return {"the schema cannot be kept to: " + error.message + (error.path.empty() ? "" : " (at " + error.path + ")"),
          std::move(param)};
}

// An attribute's value, as the renderer writes it.
std::string escaped(std::string_view text) {
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

class AnswerWriter {
 public:
  AnswerWriter(const ChatRequest& request, const text::ControlTokens& control) : request_(request), control_(control) {}

  Read<std::shared_ptr<const grammar::Grammar>> write() {
    const std::vector<Tool> tools = tools_of(request_);
    auto answer = content();
    if (!answer) return answer.error();
    auto calls = calls_of(tools);
    if (!calls) return calls.error();
    std::vector<E> forms;
    const bool must_call = request_.tool_choice == ToolChoice::required || !request_.tool_name.empty();
    const bool may_call = !tools.empty() && request_.tool_choice != ToolChoice::none;
    const bool free = is_free();
    if (!must_call) forms.push_back(E::sequence({*answer, close("response")}));
    // An answer in JSON is one that is read by a program: before calls it is left empty.
    if (may_call) forms.push_back(E::sequence({free ? E::text() : E(), close("response"), std::move(*calls)}));
    const E root = E::sequence({thought(), E::choice(std::move(forms)), close("message"), E::token(control_.end_of_message)});
    auto compiled = grammar::compile(rules_, root);
    if (!compiled) return RequestError{compiled.error().describe(), free ? "tools" : "response_format"};
    return std::move(*compiled);
  }

 private:
  E open(E header) const { return E::sequence({E::token(control_.open), std::move(header), E::token(control_.separator)}); }
  E close(std::string_view tag) const {
    return E::sequence({E::token(control_.close), E::bytes(tag), E::token(control_.separator)});
  }
  bool is_free() const { return request_.response_format.is_null(); }

  // Up to the response channel's beginning.
  E thought() const {
    if (!request_.thinking) return {};
    return E::sequence({E::text(), close("think"), open(E::bytes("response"))});
  }

  Read<E> content() {
    if (is_free()) return E::text();
    const json::Value* format = object_member(&request_.response_format, "json_schema");
    const json::Value* schema = format == nullptr ? nullptr : format->find("schema");
    if (schema == nullptr) return grammar::any_json_object(rules_);
    auto read = grammar::from_json_schema(*schema, rules_);
    if (!read) return unfit(read.error(), "response_format.json_schema.schema");
    return std::move(*read);
  }

  Read<E> calls_of(const std::vector<Tool>& tools) {
    std::vector<E> options;
    for (const Tool& tool : tools) {
      const json::Value* name = tool.function->find("name");
      if (!request_.tool_name.empty() && name->text != request_.tool_name) continue;
      auto arguments = is_strict(tool.function) ? declared_arguments(tool) : free_arguments();
      if (!arguments) return arguments.error();
      const E header = E::sequence({E::bytes("call tool=\"" + escaped(name->text) + "\" index=\""), number(), E::bytes("\"")});
      options.push_back(E::sequence({open(header), std::move(*arguments), close("call")}));
    }
    const E call = E::rule(rules_.add(E::choice(std::move(options))));
    const E calls = request_.parallel_calls ? E::repeat(call, 1, grammar::unbounded) : call;
    return E::sequence({open(E::bytes("tools")), calls, close("tools")});
  }

  static E number() {
    const auto digit = grammar::byte_range('0', '9');
    return E::sequence({E::byte_class(grammar::byte_range('1', '9')), E::repeat(E::byte_class(digit), 0, 3)});
  }

  E argument(E key, std::string_view type, E value) const {
    const E header = E::sequence({E::bytes("argument key=\""), std::move(key), E::bytes("\" type=\"" + std::string(type) + "\"")});
    return E::sequence({open(header), std::move(value), close("argument")});
  }

  Read<E> declared_arguments(const Tool& tool) {
    const json::Value* parameters = tool.function->find("parameters");
    if (parameters == nullptr || parameters->is_null()) return E();
    auto declared = grammar::arguments_from_json_schema(*parameters, rules_);
    if (!declared) return unfit(declared.error(), tool.param + ".parameters");
    std::vector<E> all;
    for (grammar::Argument& each : *declared) {
      std::vector<E> types;
      for (auto& [type, value] : each.values) types.push_back(argument(E::bytes(escaped(each.key)), type, std::move(value)));
      const E one = E::choice(std::move(types));
      all.push_back(each.required ? one : E::optional(one));
    }
    return E::sequence(std::move(all));
  }

  // Any arguments, but each with a value of the type that it is said to have.
  Read<E> free_arguments() {
    if (!free_arguments_) {
      grammar::ByteSet name = grammar::byte_range(' ', 0xFF);
      name.reset('"').reset('&').reset(0x7F);
      const E key = E::repeat(E::byte_class(name), 1, 256);
      std::vector<E> types{argument(key, "string", E::text())};
      for (const char* type : {"number", "boolean", "null", "array", "object"}) {
        json::Value schema = json::parse(R"({"type":")" + std::string(type) + "\"}").value();
        auto value = grammar::from_json_schema(schema, rules_);
        if (!value) return unfit(value.error(), "tools");
        types.push_back(argument(key, type, std::move(*value)));
      }
      free_arguments_ = E::rule(rules_.add(E::repeat(E::choice(std::move(types)), 0, grammar::unbounded)));
    }
    return *free_arguments_;
  }

  const ChatRequest& request_;
  const text::ControlTokens& control_;
  Rules rules_;
  std::optional<E> free_arguments_;
};

}  // namespace

bool demands_form(const ChatRequest& request) {
  if (!request.response_format.is_null() || request.tool_choice == ToolChoice::required || !request.tool_name.empty()) return true;
  const std::vector<Tool> tools = tools_of(request);
  if (tools.empty()) return false;
  if (request.tool_choice == ToolChoice::none || !request.parallel_calls) return true;
  return std::any_of(tools.begin(), tools.end(), [](const Tool& tool) { return is_strict(tool.function); });
}

ThinkingEnd thinking_end(const text::Tokenizer& tokenizer) {
  const text::ControlTokens& control = tokenizer.control();
  ThinkingEnd end{.markers = {control.close, control.open}};
  const auto add = [&](text::TokenId marker, std::string_view tag) {
    const auto name = tokenizer.encode(tag, false).value();
    end.ids.push_back(marker);
    end.ids.insert(end.ids.end(), name.begin(), name.end());
    end.ids.push_back(control.separator);
  };
  add(control.close, "think");
  add(control.open, "response");
  return end;
}

boost::system::result<std::shared_ptr<const grammar::Grammar>, RequestError> answer_grammar(const ChatRequest& request,
                                                                                            const text::ControlTokens& control) {
  if (!demands_form(request)) return std::shared_ptr<const grammar::Grammar>();
  return AnswerWriter(request, control).write();
}

}  // namespace k3::generation
