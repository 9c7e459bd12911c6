#include "server/request_fields.hpp"

#include <fmt/format.h>

#include <cmath>

namespace k3::server {
namespace {

std::string_view kind_name(const json::Value& value) {
  switch (value.kind) {
    case json::Value::Kind::null:
      return "null";
    case json::Value::Kind::boolean:
      return "a boolean";
    case json::Value::Kind::number:
      return "a number";
    case json::Value::Kind::string:
      return "a string";
    case json::Value::Kind::array:
      return "an array";
    case json::Value::Kind::object:
      return "an object";
  }
  return "nothing";
}

}  // namespace

const json::Value* Fields::find(std::string_view name) const {
  const json::Value* value = object_.find(name);
  return value != nullptr && value->is_null() ? nullptr : value;
}

bool Fields::boolean(std::string_view name, bool otherwise) {
  const json::Value* value = find(name);
  if (value == nullptr) return otherwise;
  if (value->is_bool()) return value->boolean;
  wrong_type(name, "a boolean", *value);
  return otherwise;
}

double Fields::number(std::string_view name, double otherwise, double low, double high) {
  const json::Value* value = find(name);
  if (value == nullptr) return otherwise;
  if (!value->is_number()) {
    wrong_type(name, "a number", *value);
    return otherwise;
  }
  const auto read = value->as_double();
  const double result = read ? *read : std::nan("");
  if (result >= low && result <= high) return result;
  refuse(name, fmt::format("{} must be a number from {} to {}", path(name), low, high));
  return otherwise;
}

std::optional<std::int64_t> Fields::integer(std::string_view name, std::int64_t low, std::int64_t high) {
  const json::Value* value = find(name);
  if (value == nullptr) return std::nullopt;
  if (!value->is_number()) {
    wrong_type(name, "an integer", *value);
    return std::nullopt;
  }
  const auto result = value->as_int();
  if (result && *result >= low && *result <= high) return *result;
  refuse(name, fmt::format("{} must be an integer from {} to {}", path(name), low, high));
  return std::nullopt;
}

std::string Fields::string(std::string_view name, std::string otherwise) {
  const json::Value* value = find(name);
  if (value == nullptr) return otherwise;
  if (value->is_string()) return value->text;
  wrong_type(name, "a string", *value);
  return otherwise;
}

const json::Value* Fields::array(std::string_view name) {
  const json::Value* value = find(name);
  if (value == nullptr || value->is_array()) return value;
  wrong_type(name, "an array", *value);
  return nullptr;
}

const json::Value* Fields::object(std::string_view name) {
  const json::Value* value = find(name);
  if (value == nullptr || value->is_object()) return value;
  wrong_type(name, "an object", *value);
  return nullptr;
}

void Fields::refuse(std::string_view name, std::string message, std::string code) {
  if (error_) return;
  error_ = field_error(path(name), std::move(message), std::move(code));
}

void Fields::adopt(const Fields& nested) {
  if (!error_ && nested.error_) error_ = nested.error_;
}

void Fields::wrong_type(std::string_view name, std::string_view expected, const json::Value& got) {
  refuse(name, fmt::format("{} must be {}, not {}", path(name), expected, kind_name(got)), "invalid_type");
}

ApiError field_error(std::string_view path, std::string message, std::string code) {
  if (message.find(path) == std::string::npos) message = std::string(path) + ": " + message;
  return {.status = 400, .message = std::move(message), .param = std::string(path), .code = std::move(code)};
}

namespace {

json::ParseOptions parse_options(const ServerOptions& options, bool lenient) {
  return {.max_depth = options.limits.json_depth, .max_values = options.limits.json_values, .replace_surrogates = lenient};
}

}  // namespace

boost::system::result<json::Value, ApiError> read_body(std::string_view text, const ServerOptions& options) {
  auto parsed = json::parse(text, parse_options(options, options.lenient_unicode));
  if (!parsed) {
    std::string message = "the body is not valid JSON: " + parsed.error().describe();
    if (!options.lenient_unicode && json::parse(text, parse_options(options, true)))
      message += ": half of a surrogate pair, which k3 serve --lenient-unicode would take";
    return ApiError{.status = 400, .message = std::move(message), .code = "invalid_json"};
  }
  if (!parsed->is_object()) {
    return ApiError{.status = 400, .message = "the body must be a JSON object", .code = "invalid_type"};
  }
  return std::move(*parsed);
}

}  // namespace k3::server
