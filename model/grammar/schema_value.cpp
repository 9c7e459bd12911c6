#include "model/grammar/schema_value.hpp"

#include <algorithm>
#include <array>
#include <utility>

namespace k3::grammar {
namespace {

struct Keyword {
  std::string_view name;
  std::uint32_t types;
};
constexpr std::uint32_t type_number = type_integer | type_fraction;
constexpr std::array keywords = std::to_array<Keyword>({
    {"type", type_any},
    {"enum", type_any},
    {"const", type_any},
    {"anyOf", type_any},
    {"oneOf", type_any},
    {"allOf", type_any},
    {"$ref", type_any},
    {"properties", type_object},
    {"required", type_object},
    {"additionalProperties", type_object},
    {"patternProperties", type_object},
    {"minProperties", type_object},
    {"maxProperties", type_object},
    {"items", type_array},
    {"prefixItems", type_array},
    {"minItems", type_array},
    {"maxItems", type_array},
    {"uniqueItems", type_array},
    {"minLength", type_string},
    {"maxLength", type_string},
    {"pattern", type_string},
    {"format", type_string},
    {"minimum", type_number},
    {"maximum", type_number},
    {"exclusiveMinimum", type_number},
    {"exclusiveMaximum", type_number},
    {"multipleOf", type_number},
});

constexpr std::array<std::string_view, 12> annotations{"title",       "description", "default",   "examples",
                                                       "$comment",    "$schema",     "$id",       "$defs",
                                                       "definitions", "readOnly",    "writeOnly", "deprecated"};

std::uint32_t type_named(std::string_view name) {
  if (name == "null") return type_null;
  if (name == "boolean") return type_boolean;
  if (name == "string") return type_string;
  if (name == "integer") return type_integer;
  if (name == "number") return type_number;
  if (name == "array") return type_array;
  if (name == "object") return type_object;
  return 0;
}

}  // namespace

bool is_annotation(std::string_view keyword) {
  return std::find(annotations.begin(), annotations.end(), keyword) != annotations.end();
}

std::uint32_t types_of_keyword(std::string_view keyword) {
  for (const Keyword& known : keywords) {
    if (known.name == keyword) return known.types;
  }
  return 0;
}

SchemaResult<std::uint32_t> declared_types(const json::Value& schema, const std::string& path) {
  const json::Value* type = schema.find("type");
  if (type == nullptr) return std::uint32_t{type_any};
  std::uint32_t types = 0;
  const auto add = [&types](const json::Value& name) {
    const std::uint32_t bits = name.is_string() ? type_named(name.text) : 0;
    types |= bits;
    return bits != 0;
  };
  const bool good = type->kind == json::Value::Kind::array ? std::all_of(type->items.begin(), type->items.end(), add) : add(*type);
  if (good && types != 0) return types;
  return SchemaError{"type must be one of null, boolean, string, integer, number, array and object, or a list of them",
                     path + "/type"};
}

std::uint32_t type_of(const json::Value& document) {
  using Kind = json::Value::Kind;
  switch (document.kind) {
    case Kind::null:
      return type_null;
    case Kind::boolean:
      return type_boolean;
    case Kind::string:
      return type_string;
    case Kind::array:
      return type_array;
    case Kind::object:
      return type_object;
    case Kind::number:
      break;
  }
  const double value = *document.as_double();
  return value == static_cast<double>(static_cast<std::int64_t>(std::clamp(value, -9e18, 9e18))) || value > 9e18 || value < -9e18
             ? type_integer
             : type_fraction;
}

bool equal(const json::Value& a, const json::Value& b) {
  using Kind = json::Value::Kind;
  if (a.kind != b.kind) return false;
  if (a.kind == Kind::boolean) return a.boolean == b.boolean;
  if (a.kind == Kind::string) return a.text == b.text;
  if (a.kind == Kind::number) return *a.as_double() == *b.as_double();
  if (a.kind == Kind::array) return std::equal(a.items.begin(), a.items.end(), b.items.begin(), b.items.end(), equal);
  if (a.kind == Kind::null) return true;
  const auto members = json::unique_members(a);
  return members.size() == json::unique_members(b).size() &&
         std::all_of(members.begin(), members.end(), [&](const json::Member* member) {
           const json::Value* other = b.find(member->key);
           return other != nullptr && equal(member->value, *other);
         });
}

json::Value true_schema() {
  json::Value value;
  value.kind = json::Value::Kind::boolean;
  value.boolean = true;
  return value;
}

std::string pointer_token(std::string_view key) {
  std::string out = "/";
  for (const char c : key) {
    if (c == '~') {
      out += "~0";
    } else if (c == '/') {
      out += "~1";
    } else {
      out += c;
    }
  }
  return out;
}

namespace {

int hex_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  const char lower = static_cast<char>(c | 0x20);
  return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

// A step of a pointer in a URI: %xx first, then ~1 and ~0.
std::string unescaped(std::string_view token) {
  std::string bytes, out;
  for (std::size_t i = 0; i < token.size(); ++i) {
    const bool coded = token[i] == '%' && i + 2 < token.size() && hex_value(token[i + 1]) >= 0 && hex_value(token[i + 2]) >= 0;
    bytes += coded ? static_cast<char>(hex_value(token[i + 1]) * 16 + hex_value(token[i + 2])) : token[i];
    if (coded) i += 2;
  }
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    const bool coded = bytes[i] == '~' && i + 1 < bytes.size() && (bytes[i + 1] == '0' || bytes[i + 1] == '1');
    out += !coded ? bytes[i] : bytes[i + 1] == '0' ? '~' : '/';
    if (coded) ++i;
  }
  return out;
}

const json::Value* step(const json::Value& at, const std::string& token) {
  if (at.is_object()) return at.find(token);
  if (!at.is_array() || token.empty() || token.size() > 9 || token.find_first_not_of("0123456789") != std::string::npos)
    return nullptr;
  const std::size_t index = std::stoul(token);
  return index < at.items.size() ? &at.items[index] : nullptr;
}

}  // namespace

SchemaResult<const json::Value*> SchemaSet::resolve(const json::Value& reference, const std::string& path) const {
  if (!reference.is_string() || !(reference.text == "#" || reference.text.starts_with("#/"))) {
    return SchemaError{"$ref must point into this schema, as in #/$defs/name", path + "/$ref"};
  }
  const json::Value* at = &root_;
  std::string_view rest = std::string_view(reference.text).substr(1);
  while (!rest.empty() && at != nullptr) {
    rest.remove_prefix(1);
    const auto slash = std::min(rest.find('/'), rest.size());
    at = step(*at, unescaped(rest.substr(0, slash)));
    rest.remove_prefix(slash);
  }
  if (at == nullptr) return SchemaError{"$ref points to " + reference.text + ", which does not exist", path + "/$ref"};
  return at;
}

}  // namespace k3::grammar
