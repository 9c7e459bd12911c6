#include "server/translated_body.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <iterator>

#include "server/endpoints.hpp"

namespace k3::server {
namespace {

constexpr std::string_view kCommon[] = {"model",
                                        "stream",
                                        "temperature",
                                        "top_p",
                                        "top_k",
                                        "min_p",
                                        "seed",
                                        "presence_penalty",
                                        "logit_bias",
                                        "repetition_penalty",
                                        "repeat_penalty",
                                        "return_progress",
                                        "frequency_penalty",
                                        "sse_ping_style",
                                        "sse_ping_interval",
                                        "chat_template_kwargs"};

template <class Names>
bool among(const Names& names, std::string_view name) {
  return std::find(std::begin(names), std::end(names), name) != std::end(names);
}

// "tools[2].function.name" of a chat completion, in the request's terms.
std::string place(std::string_view param, const TranslatedBody& from, std::span<const FieldName> names) {
  const auto name_of = [names](std::string_view field) {
    const auto found = std::find_if(names.begin(), names.end(), [field](const FieldName& name) { return name.first == field; });
    return found == names.end() ? field : found->second;
  };
  const std::size_t head_end = std::min(param.find_first_of(".["), param.size());
  const std::string_view head = param.substr(0, head_end);
  std::string_view rest = param.substr(head_end);
  std::string result(name_of(head));
  const auto* origins = head == "messages" ? &from.messages : head == "tools" ? &from.tools : nullptr;
  if (origins != nullptr && rest.starts_with('[')) {
    std::size_t index = origins->size();
    std::from_chars(rest.data() + 1, rest.data() + rest.size(), index);
    rest.remove_prefix(std::min(rest.find(']'), rest.size() - 1) + 1);
    if (index < origins->size()) result = (*origins)[index];
  }
  // Elsewhere a function is not wrapped.
  constexpr std::string_view kWrapped = ".function";
  if (rest.starts_with(kWrapped)) rest.remove_prefix(kWrapped.size());
  if (rest.starts_with('.')) return fmt::format("{}.{}", result, name_of(rest.substr(1)));
  return result + std::string(rest);
}

json::Value of_kind(json::Value::Kind kind) {
  json::Value value;
  value.kind = kind;
  return value;
}

}  // namespace

ApiError relocated(ApiError error, const TranslatedBody& from, std::span<const FieldName> names) {
  if (error.param.empty()) return error;
  std::string param = place(error.param, from, names);
  if (const std::size_t found = error.message.find(error.param); found != std::string::npos)
    error.message.replace(found, error.param.size(), param);
  error.param = std::move(param);
  return error;
}

Prepared translated_answer(TranslatedBody from, std::span<const FieldName> names, ShapeMaker shape, const BodyContext& context) {
  Prepared prepared = chat_answer(std::move(from.body), context);
  if (auto* response = std::get_if<Response>(&prepared)) {
    if (response->error) return error_response(relocated(std::move(*response->error), from, names));
    return prepared;
  }
  if (std::holds_alternative<TakesLong>(prepared)) return prepared;
  auto& plan = std::get<AnswerPlan>(prepared);
  plan.shape = std::move(shape);
  std::move(from.ignored.begin(), from.ignored.end(), std::back_inserter(plan.ignored));
  std::move(from.warnings.begin(), from.warnings.end(), std::back_inserter(plan.warnings));
  return prepared;
}

json::Value number_value(std::int64_t number) {
  json::Value value;
  value.kind = json::Value::Kind::number;
  value.text = std::to_string(number);
  return value;
}

json::Value text_value(std::string text) {
  json::Value value = of_kind(json::Value::Kind::string);
  value.text = std::move(text);
  return value;
}

json::Value bool_value(bool value) {
  json::Value result = of_kind(json::Value::Kind::boolean);
  result.boolean = value;
  return result;
}

json::Value object_value() { return of_kind(json::Value::Kind::object); }
json::Value array_value() { return of_kind(json::Value::Kind::array); }

void put(json::Value& object, std::string_view key, json::Value value) {
  object.members.push_back({std::string(key), std::move(value)});
}

json::Value text_part(std::string text) {
  json::Value part = object_value();
  put(part, "type", text_value("text"));
  put(part, "text", text_value(std::move(text)));
  return part;
}

json::Value message_value(std::string_view role, json::Value content) {
  json::Value message = object_value();
  put(message, "role", text_value(std::string(role)));
  put(message, "content", std::move(content));
  return message;
}

json::Value schema_format(std::string name, json::Value schema) {
  json::Value wrapped = object_value();
  put(wrapped, "name", text_value(std::move(name)));
  put(wrapped, "schema", std::move(schema));
  json::Value format = object_value();
  put(format, "type", text_value("json_schema"));
  put(format, "json_schema", std::move(wrapped));
  return format;
}

void take_common(json::Value& body, std::span<const std::string_view> read, TranslatedBody& out) {
  out.body = object_value();
  for (auto& [name, value] : body.members) {
    if (among(kCommon, name)) {
      put(out.body, name, std::move(value));
    } else if (!value.is_null() && !among(read, name) && !among(out.ignored, name)) {
      out.ignored.push_back(name);
    }
  }
}

std::string at(std::string_view name, std::size_t index) { return fmt::format("{}[{}]", name, index); }

bool is_image(std::string_view type) { return type == "image" || type == "image_url" || type == "input_image"; }

}  // namespace k3::server
