#include "model/checkpoint/config_keys.hpp"

#include <fmt/format.h>

namespace k3::checkpoint {
namespace {

// A value as it stands in the file, cut short: a message is no place for a whole object.
std::string shown(const json::Value& value) {
  std::string text;
  json::Writer(text).value(value);
  constexpr std::size_t longest = 80;
  if (text.size() > longest) text = text.substr(0, longest) + "...";
  return text;
}

}  // namespace

const json::Value* Keys::get(std::string_view key, bool required) {
  if (object_ == nullptr || failed()) return nullptr;
  const auto* value = object_->find(key);
  if (value != nullptr && !value->is_null()) return value;
  if (required) {
    errors_->first = Error{.code = ErrorCode::invalid_argument,
                           .message = "required key " + path_ + std::string(key) + " is missing",
                           .file = errors_->file};
  }
  return nullptr;
}

bool Keys::has(std::string_view key) const {
  const auto* value = object_ != nullptr ? object_->find(key) : nullptr;
  return value != nullptr && !value->is_null();
}

Keys Keys::object(std::string_view key) {
  const auto* value = get(key, true);
  if (value != nullptr && !value->is_object()) {
    reject(key, shown(*value), "an object");
    value = nullptr;
  }
  return Keys(value, path_ + std::string(key) + ".", *errors_);
}

std::size_t Keys::count(std::string_view key, std::int64_t least, std::int64_t most) {
  const auto* value = get(key, true);
  if (value == nullptr) return 0;
  const auto number = value->as_int();
  if (number && *number >= least && *number <= most) return static_cast<std::size_t>(*number);
  reject(key, shown(*value), fmt::format("a whole number from {} to {}", least, most));
  return 0;
}

float Keys::real(std::string_view key, double least, double most) {
  const auto* value = get(key, true);
  if (value == nullptr) return 0.0F;
  const auto number = value->as_double();
  // Written so that a NaN is refused too.
  if (number && *number >= least && *number <= most) return static_cast<float>(*number);
  reject(key, shown(*value), fmt::format("a number from {} to {}", least, most));
  return 0.0F;
}

std::vector<std::int64_t> Keys::list(std::string_view key, std::size_t most) {
  std::vector<std::int64_t> numbers;
  const auto* value = get(key, true);
  if (value == nullptr) return numbers;
  if (!value->is_array() || value->items.size() > most) {
    reject(key, shown(*value), fmt::format("a list of at most {} layer numbers", most));
    return numbers;
  }
  for (const auto& item : value->items) {
    const auto number = item.as_int();
    if (!number) {
      reject(key, shown(item), "whole numbers");
      return {};
    }
    numbers.push_back(*number);
  }
  return numbers;
}

void Keys::check_text(std::string_view key, std::string_view value, bool required) {
  const auto* got = get(key, required);
  if (got != nullptr && !(got->is_string() && got->text == value)) reject(key, shown(*got), json::quoted(value));
}

void Keys::check_bool(std::string_view key, bool value, bool required) {
  const auto* got = get(key, required);
  if (got != nullptr && !(got->is_bool() && got->boolean == value)) reject(key, shown(*got), value ? "true" : "false");
}

void Keys::check_int(std::string_view key, std::int64_t value, bool required) {
  const auto* got = get(key, required);
  if (got == nullptr) return;
  const auto number = got->as_int();
  if (!number || *number != value) reject(key, shown(*got), std::to_string(value));
}

void Keys::may_hold(std::string_view key, const char* value) {
  const auto* got = get(key, false);
  if (got == nullptr) return;
  if (got->is_array()) {
    for (const auto& item : got->items) {
      if (item.is_string() && item.text == value) return;
    }
  }
  reject(key, shown(*got), "a list with " + json::quoted(value));
}

void Keys::reject(std::string_view key, const std::string& got, const std::string& supported) {
  if (failed()) return;
  errors_->first = Error{.code = ErrorCode::unsupported,
                         .message = path_ + std::string(key) + " has a value that is not supported",
                         .file = errors_->file,
                         .expected = supported,
                         .got = got};
}

Result<void> Keys::result() const {
  if (errors_->first) return *errors_->first;
  return {};
}

}  // namespace k3::checkpoint
