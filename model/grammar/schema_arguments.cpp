// The parameters of a function, each alone.
#include <utility>

#include "model/grammar/schema_reader.hpp"

namespace k3::grammar {

using json::Value;

namespace {

Value of_type(std::string_view type) {
  Value name, schema;
  name.kind = Value::Kind::string;
  name.text = type;
  schema.kind = Value::Kind::object;
  schema.members.push_back({"type", std::move(name)});
  return schema;
}

}  // namespace

// Schemas one of which an argument satisfies: what a union at the top is made of, since each type is written in its own way.
SchemaResult<void> SchemaReader::add_alternatives(const Value& schema, const Place& place, std::vector<Value>& out) {
  if (place.depth > limits_.depth) return SchemaError{"references that lead only to each other", place.path};
  const Value* pointer = schema.find("$ref");
  if (pointer != nullptr && set_.without(schema, "$ref").members.empty()) {
    auto target = set_.resolve(*pointer, place.path);
    if (!target) return target.error();
    return add_alternatives(**target, {pointer->text.substr(1), place.depth + 1}, out);
  }
  if (pointer != nullptr || schema.find("allOf") != nullptr) {
    // Only what is said together shows which types are left.
    auto merged = set_.merge(schema, true_schema(), place.path);
    if (!merged) return merged.error();
    return add_alternatives(*merged, {place.path, place.depth + 1}, out);
  }
  const std::string keyword = schema.find("anyOf") != nullptr ? "anyOf" : "oneOf";
  const Value* list = schema.find(keyword);
  if (list == nullptr || !list->is_array()) {
    out.push_back(schema);
    return {};
  }
  const Value beside = set_.without(schema, keyword);
  for (std::size_t i = 0; i < list->items.size(); ++i) {
    const Place at = place.below(keyword, i);
    for (std::size_t k = 0; keyword == "oneOf" && k < i; ++k) {
      if (set_.disjoint(list->items[k], list->items[i])) continue;
      return SchemaError{"oneOf: a value may be valid against two entries; use anyOf", place.below(keyword).path};
    }
    if (beside.members.empty()) {
      if (auto done = add_alternatives(list->items[i], at, out); !done) return done;
    } else if (!set_.disjoint(beside, list->items[i])) {
      auto both = set_.merge(beside, list->items[i], at.path);
      if (!both) return both.error();
      if (auto done = add_alternatives(*both, at, out); !done) return done;
    }
  }
  return {};
}

SchemaResult<std::vector<std::pair<std::string_view, Expression>>> SchemaReader::values_by_type(const Member& member) {
  std::vector<Value> alternatives;
  if (auto done = add_alternatives(member.schema, member.place, alternatives); !done) return done.error();
  std::vector<std::pair<std::string_view, Expression>> out;
  for (const char* type : {"string", "number", "boolean", "null", "array", "object"}) {
    const Value wanted = of_type(type);
    std::vector<Expression> options;
    for (const Value& alternative : alternatives) {
      if (set_.disjoint(alternative, wanted)) continue;
      auto both = set_.merge(alternative, wanted, member.place.path);
      if (!both) return both.error();
      spelling_ = type == std::string_view("string") ? Spelling::raw : Spelling::json;
      auto value = read(*both, member.place);
      spelling_ = Spelling::json;
      if (!value) return value.error();
      options.push_back(std::move(*value));
    }
    if (!options.empty()) out.emplace_back(type, Expression::choice(std::move(options)));
  }
  return out;
}

SchemaResult<std::vector<Argument>> SchemaReader::arguments() {
  auto object = set_.merge(root_, of_type("object"), "");
  if (!object) return object.error();
  if (auto known = check_keywords(*object, {}); !known) return known.error();
  // What ties parameters to each other has no place in a call, where each is written alone.
  for (const json::Member& member : object->members) {
    const std::string& key = member.key;
    if (is_annotation(key) || key == "type" || key == "properties" || key == "required" || key == "additionalProperties") continue;
    return SchemaError{key + " is not supported at the top of a strict tool's parameters", pointer_token(key)};
  }
  auto declared = members(*object, {});
  if (!declared) return declared.error();
  std::vector<Argument> out;
  for (const Member& member : *declared) {
    auto values = values_by_type(member);
    if (!values) return values.error();
    if (!values->empty()) {
      out.push_back({member.key, member.required, std::move(*values)});
    } else if (member.required) {
      return SchemaError{"required: " + json::quoted(member.key) + " may not be there", "/required"};
    }
  }
  if (auto done = read_references(); !done) return done.error();
  return out;
}

SchemaResult<std::vector<Argument>> arguments_from_json_schema(const Value& parameters, Rules& rules, const SchemaLimits& limits) {
  return SchemaReader(parameters, rules, limits).arguments();
}

}  // namespace k3::grammar
