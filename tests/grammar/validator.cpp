#include "tests/grammar/validator.hpp"

#include <algorithm>
#include <cmath>
#include <regex>

#include "model/text/utf8.hpp"

namespace k3::grammar::test {
namespace {

using json::Value;

bool is_type(const Value& document, const std::string& name) {
  using Kind = Value::Kind;
  if (name == "integer") return document.is_number() && std::floor(*document.as_double()) == *document.as_double();
  if (name == "number") return document.kind == Kind::number && std::isfinite(*document.as_double());
  if (name == "string") return document.kind == Kind::string;
  if (name == "boolean") return document.kind == Kind::boolean;
  if (name == "null") return document.kind == Kind::null;
  return name == "array" ? document.kind == Kind::array : document.kind == Kind::object;
}

bool same(const Value& a, const Value& b) {
  if (a.kind != b.kind) return false;
  if (a.is_number()) return *a.as_double() == *b.as_double();
  if (a.is_array()) return std::equal(a.items.begin(), a.items.end(), b.items.begin(), b.items.end(), same);
  if (a.is_object()) {
    return a.members.size() == b.members.size() && std::all_of(a.members.begin(), a.members.end(), [&](const json::Member& m) {
             return b.find(m.key) != nullptr && same(m.value, *b.find(m.key));
           });
  }
  return a.boolean == b.boolean && a.text == b.text;
}

double number_of(const Value* keyword, double otherwise) {
  return keyword != nullptr && keyword->is_number() ? *keyword->as_double() : otherwise;
}

bool valid_number(double value, const Value& schema) {
  const double infinite = HUGE_VAL;
  const auto* step = schema.find("multipleOf");
  return value >= number_of(schema.find("minimum"), -infinite) && value <= number_of(schema.find("maximum"), infinite) &&
         value > number_of(schema.find("exclusiveMinimum"), -infinite) &&
         value < number_of(schema.find("exclusiveMaximum"), infinite) &&
         (step == nullptr || std::fmod(value, *step->as_double()) == 0);
}

// A wide character is a code point, which is what a pattern's characters are.
std::wstring wide(const std::string& utf8) {
  std::wstring out;
  for (std::size_t i = 0; i < utf8.size();) {
    const auto decoded = text::utf8::decode_valid(utf8, i);
    out += static_cast<wchar_t>(decoded.code_point);
    i += decoded.length;
  }
  return out;
}

bool found(const std::string& text, const std::string& pattern) {
  try {
    return std::regex_search(wide(text), std::wregex(wide(pattern)));
  } catch (const std::regex_error&) {
    return true;
  }
}

bool valid_string(const std::string& text, const Value& schema) {
  if (text::utf8::find_invalid(text)) return false;
  const auto length = static_cast<double>(std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xc0) != 0x80; }));
  if (length < number_of(schema.find("minLength"), 0) || length > number_of(schema.find("maxLength"), 1e18)) return false;
  const auto* pattern = schema.find("pattern");
  return pattern == nullptr || found(text, pattern->text);
}

bool valid_array(const Value& document, const Value& schema, const Value& root) {
  const auto size = static_cast<double>(document.items.size());
  if (size < number_of(schema.find("minItems"), 0) || size > number_of(schema.find("maxItems"), 1e18)) return false;
  const auto *prefix = schema.find("prefixItems"), *items = schema.find("items");
  const std::size_t first = prefix != nullptr ? prefix->items.size() : 0;
  for (std::size_t i = 0; i < document.items.size(); ++i) {
    if (i < first && !valid(document.items[i], prefix->items[i], root)) return false;
    if (i >= first && items != nullptr && !valid(document.items[i], *items, root)) return false;
  }
  return true;
}

bool valid_object(const Value& document, const Value& schema, const Value& root) {
  const auto members = json::unique_members(document);
  const auto size = static_cast<double>(members.size());
  if (size < number_of(schema.find("minProperties"), 0) || size > number_of(schema.find("maxProperties"), 1e18)) return false;
  const auto *properties = schema.find("properties"), *patterns = schema.find("patternProperties");
  const auto *others = schema.find("additionalProperties"), *required = schema.find("required");
  for (const auto* member : members) {
    bool described = false;
    const auto check = [&](const Value& own) {
      described = true;
      return valid(member->value, own, root);
    };
    const Value* own = properties != nullptr ? properties->find(member->key) : nullptr;
    if (own != nullptr && !check(*own)) return false;
    for (const auto& entry : patterns != nullptr ? patterns->members : std::vector<json::Member>{}) {
      if (found(member->key, entry.key) && !check(entry.value)) return false;
    }
    if (!described && others != nullptr && !valid(member->value, *others, root)) return false;
  }
  for (const auto& name : required != nullptr ? required->items : std::vector<Value>{}) {
    if (document.find(name.text) == nullptr) return false;
  }
  return true;
}

// Of the plain pointers that the tests use; nullptr for others.
const Value* target(const std::string& reference, const Value& root) {
  const Value* at = &root;
  for (std::size_t begin = 2; begin < reference.size();) {
    const auto end = std::min(reference.find('/', begin), reference.size());
    at = at->find(reference.substr(begin, end - begin));
    if (at == nullptr) return nullptr;
    begin = end + 1;
  }
  return at;
}

}  // namespace

bool valid(const Value& document, const Value& schema, const Value& root) {
  if (schema.is_bool()) return schema.boolean;
  if (const auto* reference = schema.find("$ref")) {
    const Value* referred = target(reference->text, root);
    if (referred != nullptr && !valid(document, *referred, root)) return false;
  }
  if (const auto* type = schema.find("type")) {
    const auto is = [&](const Value& name) { return is_type(document, name.text); };
    if (type->is_array() ? std::none_of(type->items.begin(), type->items.end(), is) : !is(*type)) return false;
  }
  const auto holds = [&](const Value& other) { return valid(document, other, root); };
  const auto equals = [&](const Value& other) { return same(document, other); };
  if (const auto* list = schema.find("enum"); list != nullptr && std::none_of(list->items.begin(), list->items.end(), equals))
    return false;
  if (const auto* one = schema.find("const"); one != nullptr && !equals(*one)) return false;
  if (const auto* list = schema.find("anyOf"); list != nullptr && std::none_of(list->items.begin(), list->items.end(), holds))
    return false;
  if (const auto* list = schema.find("allOf"); list != nullptr && !std::all_of(list->items.begin(), list->items.end(), holds))
    return false;
  if (const auto* list = schema.find("oneOf"); list != nullptr && std::count_if(list->items.begin(), list->items.end(), holds) != 1)
    return false;
  if (document.is_number()) return valid_number(*document.as_double(), schema);
  if (document.is_string()) return valid_string(document.text, schema);
  if (document.is_array()) return valid_array(document, schema, root);
  return !document.is_object() || valid_object(document, schema, root);
}

}  // namespace k3::grammar::test
