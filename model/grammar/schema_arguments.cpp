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

SchemaResult<std::vector<Argument>> SchemaReader::arguments() {
  auto object = set_.merge(root_, of_type("object"), "");
  if (!object) return object.error();
  if (auto known = check_keywords(*object, {}); !known) return known.error();
  auto declared = members(*object, {});
  if (!declared) return declared.error();
  std::vector<Argument> out;
  for (const Member& member : *declared) {
    Argument argument{member.key, member.required, {}};
    for (const char* type : {"string", "number", "boolean", "null", "array", "object"}) {
      const Value wanted = of_type(type);
      if (set_.disjoint(member.schema, wanted)) continue;
      auto both = set_.merge(member.schema, wanted, member.place.path);
      if (!both) return both.error();
      spelling_ = type == std::string_view("string") ? Spelling::raw : Spelling::json;
      auto value = read(*both, member.place);
      spelling_ = Spelling::json;
      if (!value) return value.error();
      argument.values.emplace_back(type, std::move(*value));
    }
    if (!argument.values.empty()) {
      out.push_back(std::move(argument));
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
