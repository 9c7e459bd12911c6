// Schemas that must hold together become one.
#include <algorithm>
#include <array>
#include <set>
#include <utility>

#include "model/grammar/numbers.hpp"
#include "model/grammar/schema_value.hpp"

namespace k3::grammar {
namespace {

using json::Value;

std::size_t values_in(const Value& value) {
  std::size_t count = 1;
  for (const Value& item : value.items) count += values_in(item);
  for (const json::Member& member : value.members) count += values_in(member.value);
  return count;
}

void set(Value& object, std::string_view key, Value value) {
  if (Value* old = object.find(key)) {
    *old = std::move(value);
  } else {
    object.members.push_back({std::string(key), std::move(value)});
  }
}

Value all_of(const Value& a, const Value& b) {
  if (a.is_bool()) return a.boolean ? b : a;
  if (b.is_bool()) return b.boolean ? a : b;
  Value list, out;
  list.kind = Value::Kind::array;
  list.items = {a, b};
  out.kind = Value::Kind::object;
  out.members.push_back({"allOf", std::move(list)});
  return out;
}

constexpr std::array<std::string_view, 3> about_members{"properties", "patternProperties", "additionalProperties"};
constexpr std::array<std::string_view, 2> about_items{"items", "prefixItems"};

bool is_one_of(std::string_view key, std::span<const std::string_view> names) {
  return std::find(names.begin(), names.end(), key) != names.end();
}

bool has_any(const Value& schema, std::span<const std::string_view> names) {
  return std::any_of(names.begin(), names.end(), [&](std::string_view name) { return schema.find(name) != nullptr; });
}

Value string_list(const std::vector<std::string>& names) {
  Value list;
  list.kind = Value::Kind::array;
  for (const std::string& name : names) {
    Value item;
    item.kind = Value::Kind::string;
    item.text = name;
    list.items.push_back(std::move(item));
  }
  return list;
}

Value types_value(std::uint32_t types) {
  std::vector<std::string> names;
  const auto add = [&](std::uint32_t bits, const char* name) {
    if ((types & bits) == bits) names.emplace_back(name);
  };
  add(type_null, "null");
  add(type_boolean, "boolean");
  add(type_string, "string");
  if ((types & type_fraction) == 0) add(type_integer, "integer");
  add(type_integer | type_fraction, "number");
  add(type_array, "array");
  add(type_object, "object");
  return string_list(names);
}

Value joined(const Value& a, const Value& b) {
  Value out = a;
  for (const Value& item : b.items) {
    if (std::none_of(out.items.begin(), out.items.end(), [&](const Value& other) { return equal(item, other); }))
      out.items.push_back(item);
  }
  return out;
}

Value common(const Value& a, const Value& b) {
  Value out = a;
  std::erase_if(out.items, [&](const Value& item) {
    return std::none_of(b.items.begin(), b.items.end(), [&](const Value& other) { return equal(item, other); });
  });
  return out;
}

bool larger(const Value& a, const Value& b) { return a.is_number() && b.is_number() && *a.as_double() > *b.as_double(); }

}  // namespace

bool SchemaSet::take(const Value& value) {
  copied_ += values_in(value);
  return copied_ <= 40 * limits_.nodes;
}

Value SchemaSet::without(const Value& schema, std::string_view keyword) {
  Value out;
  out.kind = Value::Kind::object;
  for (const json::Member& member : schema.members) {
    if (member.key != keyword && !is_annotation(member.key)) out.members.push_back(member);
  }
  copied_ += values_in(out);
  return out;
}

// `schema` with what it refers to, and what it lists under allOf, written into it.
SchemaResult<Value> SchemaSet::without_indirection(const Value& schema, const std::string& path, int depth) {
  if (depth > deepest) return SchemaError{"$ref and allOf lead through more than " + std::to_string(deepest) + " schemas", path};
  if (const Value* reference = schema.find("$ref")) {
    auto target = resolve(*reference, path);
    if (!target) return target.error();
    return merge(without(schema, "$ref"), **target, path, depth + 1);
  }
  const Value* list = schema.find("allOf");
  if (list == nullptr) return schema;
  if (!list->is_array() || list->items.empty()) return SchemaError{"allOf must be a list of schemas", path + "/allOf"};
  Value out = without(schema, "allOf");
  for (const Value& part : list->items) {
    auto merged = merge(out, part, path, depth + 1);
    if (!merged) return merged;
    out = std::move(*merged);
  }
  return out;
}

SchemaResult<Value> SchemaSet::merge(const Value& a, const Value& b, const std::string& path, int depth) {
  if (!take(a) || !take(b))
    return SchemaError{"too much is combined by allOf, anyOf and $ref; write it out or make it smaller", path};
  if (!(a.is_bool() || a.is_object()) || !(b.is_bool() || b.is_object()))
    return SchemaError{"a schema must be an object or a boolean", path};
  auto left = a.is_object() ? without_indirection(a, path, depth) : a;
  auto right = b.is_object() ? without_indirection(b, path, depth) : b;
  if (!left) return left;
  if (!right) return right;
  if (left->is_bool()) return left->boolean ? std::move(right) : std::move(left);
  if (right->is_bool()) return right->boolean ? std::move(left) : std::move(right);
  Value out = std::move(*left);
  if (has_any(*right, about_members)) {
    const Value before = out;
    if (auto done = merge_members(out, before, *right, path); !done) return done.error();
  }
  if (has_any(*right, about_items)) {
    if (auto done = merge_items(out, *right, path); !done) return done.error();
  }
  for (const json::Member& member : right->members) {
    if (is_one_of(member.key, about_members) || is_one_of(member.key, about_items) || is_annotation(member.key)) continue;
    if (auto done = merge_keyword(out, member, path); !done) return done.error();
  }
  return out;
}

SchemaResult<void> SchemaSet::merge_keyword(Value& into, const json::Member& member, const std::string& path) {
  const std::string& key = member.key;
  Value* mine = into.find(key);
  if (mine == nullptr) {
    into.members.push_back(member);
    return {};
  }
  if (equal(*mine, member.value)) return {};
  if (key == "type") {
    Value other;
    other.kind = Value::Kind::object;
    other.members.push_back(member);
    const auto a = declared_types(into, path), b = declared_types(other, path);
    if (!a || !b) return a ? b.error() : a.error();
    if ((*a & *b) == 0) return SchemaError{"types that exclude each other must hold together", path};
    *mine = types_value(*a & *b);
    return {};
  }
  if (key == "required") {
    *mine = joined(*mine, member.value);
    return {};
  }
  if (key == "enum") {
    *mine = common(*mine, member.value);
    if (mine->items.empty()) return SchemaError{"enum: lists without a common value must hold together", path};
    return {};
  }
  constexpr std::array<std::string_view, 5> least{"minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties"};
  constexpr std::array<std::string_view, 5> most{"maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties"};
  if (is_one_of(key, least) || is_one_of(key, most)) {
    if (is_one_of(key, least) == larger(member.value, *mine)) *mine = member.value;
    return {};
  }
  if (key == "uniqueItems") {
    if (member.value.is_bool() && member.value.boolean) *mine = member.value;
    return {};
  }
  return SchemaError{"different values of " + key + " that must hold together (by allOf, anyOf or $ref) are not supported", path};
}

// What `a` and `b` say together about the member `key`.
SchemaResult<Value> SchemaSet::member_schema(const Value& a, const Value& b, std::string_view key, const std::string& path) {
  const auto of = [key](const Value& schema) {
    const Value* properties = schema.find("properties");
    if (const Value* own = properties != nullptr ? properties->find(key) : nullptr) return *own;
    const Value* others = schema.find("additionalProperties");
    return others != nullptr ? *others : true_schema();
  };
  Value out = all_of(of(a), of(b));
  if (!take(out)) return SchemaError{"too much is combined by allOf, anyOf and $ref; write it out or make it smaller", path};
  return out;
}

SchemaResult<void> SchemaSet::merge_members(Value& into, const Value& a, const Value& b, const std::string& path) {
  if (!has_any(a, about_members)) {
    for (const std::string_view key : about_members) {
      if (const Value* value = b.find(key)) set(into, key, *value);
    }
    return {};
  }
  for (const Value* schema : {&a, &b}) {
    if (schema->find("patternProperties") != nullptr) {
      return SchemaError{"patternProperties beside properties that must hold together (by allOf, anyOf or $ref) are not supported",
                         path};
    }
  }
  Value properties;
  properties.kind = Value::Kind::object;
  std::set<std::string_view> known;
  for (const Value* schema : {&a, &b}) {
    const Value* own = schema->find("properties");
    for (const json::Member* member : own != nullptr ? json::unique_members(*own) : std::vector<const json::Member*>{}) {
      if (!known.insert(member->key).second) continue;
      auto value = member_schema(a, b, member->key, path);
      if (!value) return value.error();
      properties.members.push_back({member->key, std::move(*value)});
    }
  }
  const Value *mine = a.find("additionalProperties"), *theirs = b.find("additionalProperties");
  if (mine != nullptr && theirs != nullptr) {
    set(into, "additionalProperties", all_of(*mine, *theirs));
  } else if (theirs != nullptr) {
    set(into, "additionalProperties", *theirs);
  }
  if (!properties.members.empty()) set(into, "properties", std::move(properties));
  return {};
}

SchemaResult<void> SchemaSet::merge_items(Value& into, const Value& other, const std::string& path) {
  if (!has_any(into, about_items)) {
    for (const std::string_view key : about_items) {
      if (const Value* value = other.find(key)) set(into, key, *value);
    }
    return {};
  }
  if (into.find("prefixItems") != nullptr || other.find("prefixItems") != nullptr) {
    return SchemaError{"prefixItems beside items that must hold together (by allOf, anyOf or $ref) are not supported", path};
  }
  set(into, "items", all_of(*into.find("items"), *other.find("items")));
  return {};
}

const Value& SchemaSet::followed(const Value& schema) const {
  const Value* at = &schema;
  for (int steps = 0; steps < deepest; ++steps) {
    const Value* reference = at->find("$ref");
    if (reference == nullptr) break;
    const auto target = resolve(*reference, {});
    if (!target) break;
    at = *target;
  }
  return *at;
}

bool SchemaSet::disjoint_objects(const Value& a, const Value& b, int depth) const {
  const auto property = [](const Value& schema, std::string_view key) {
    const Value* properties = schema.find("properties");
    return properties != nullptr ? properties->find(key) : nullptr;
  };
  const auto closed = [](const Value& schema) {
    const Value* others = schema.find("additionalProperties");
    return others != nullptr && others->is_bool() && !others->boolean && schema.find("patternProperties") == nullptr;
  };
  for (const auto& [one, other] : {std::pair(&a, &b), std::pair(&b, &a)}) {
    const Value* required = one->find("required");
    for (const Value& key : required != nullptr ? required->items : std::vector<Value>{}) {
      if (!key.is_string()) return false;
      if (closed(*other) && property(*other, key.text) == nullptr) return true;
      const Value *mine = property(*one, key.text), *theirs = property(*other, key.text);
      if (mine != nullptr && theirs != nullptr && disjoint(*mine, *theirs, depth + 1)) return true;
    }
  }
  return false;
}

bool SchemaSet::disjoint(const Value& a, const Value& b, int depth) const {
  if (depth > 8) return false;
  const Value &left = followed(a), &right = followed(b);
  if (!left.is_object() || !right.is_object()) return (left.is_bool() && !left.boolean) || (right.is_bool() && !right.boolean);
  const auto values = [](const Value& schema) {
    std::vector<Value> out;
    if (const Value* one = schema.find("const")) {
      out = {*one};
    } else if (const Value* list = schema.find("enum")) {
      out = list->items;
    }
    return out;
  };
  const auto types = [&](const Value& schema) {
    std::uint32_t out = 0;
    for (const Value& value : values(schema)) out |= type_of(value);
    const auto declared = declared_types(schema, {});
    const std::uint32_t named = declared ? *declared : std::uint32_t{type_any};
    return out != 0 ? out & named : named;
  };
  const std::uint32_t shared = types(left) & types(right);
  if (shared == 0) return true;
  const std::vector<Value> some = values(left), others = values(right);
  if (!some.empty() && !others.empty()) {
    const auto elsewhere = [&](const Value& value) {
      return std::none_of(others.begin(), others.end(), [&](const Value& other) { return equal(value, other); });
    };
    if (std::all_of(some.begin(), some.end(), elsewhere)) return true;
  }
  return shared == type_object && disjoint_objects(left, right, depth);
}

}  // namespace k3::grammar
