// A tool call's arguments in history: what of them becomes typed `argument` elements.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/text/json.hpp"

namespace k3::text {

struct Argument {
  std::string key;
  std::string_view type;  // string, number, boolean, null, object or array
  std::string text;       // a string's own text, anything else as JSON
};

// Arguments given as an object: values as Python dumps them.
std::vector<Argument> arguments_of(const json::Value& object);

// Arguments given as JSON text, the way models and clients write it: read one level deep. Values other than strings keep their
// bytes, repeated keys are all kept, raw control characters in strings, NaN and Infinity pass, and what follows the closing brace
// is ignored. nullopt: not an object even so.
std::optional<std::vector<Argument>> arguments_of(std::string_view text);

}  // namespace k3::text
