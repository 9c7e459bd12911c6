// Schemas as JSON values: what they say together, and whether a document can satisfy two of them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "model/grammar/json_schema.hpp"

namespace k3::grammar {

// Types of a document, as bits.
enum Type : std::uint32_t {
  type_null = 1,
  type_boolean = 2,
  type_string = 4,
  type_integer = 8,    // a number without a fraction
  type_fraction = 16,  // any other number; "number" is both
  type_array = 32,
  type_object = 64,
  type_any = 127
};

// What says nothing about which documents are valid, or holds schemas for others to refer to.
bool is_annotation(std::string_view keyword);
// Says something about documents of which types; 0 if the keyword is not known.
std::uint32_t types_of_keyword(std::string_view keyword);

// The value of `type`, or any; error: not a type or a list of them.
SchemaResult<std::uint32_t> declared_types(const json::Value& schema, const std::string& path);
std::uint32_t type_of(const json::Value& document);

// As JSON Schema compares: numbers by value, objects regardless of order.
bool equal(const json::Value& a, const json::Value& b);

json::Value true_schema();
std::string pointer_token(std::string_view key);  // `/` and the key, escaped

// Resolves references within one document and combines schemas of it.
class SchemaSet {
 public:
  SchemaSet(const json::Value& root, const SchemaLimits& limits) : root_(root), limits_(limits) {}

  // `path` is where the reference stands.
  SchemaResult<const json::Value*> resolve(const json::Value& reference, const std::string& path) const;
  // A schema that is satisfied by what satisfies both. Error: a combination that is not supported.
  SchemaResult<json::Value> merge(const json::Value& a, const json::Value& b, const std::string& path, int depth = 0);
  // `schema` without the keyword.
  json::Value without(const json::Value& schema, std::string_view keyword);
  // Certain that no document satisfies both; false may be wrong.
  bool disjoint(const json::Value& a, const json::Value& b, int depth = 0) const;

 private:
  static constexpr int deepest = 50;
  SchemaResult<json::Value> without_indirection(const json::Value& schema, const std::string& path, int depth);
  SchemaResult<void> merge_keyword(json::Value& into, const json::Member& member, const std::string& path);
  SchemaResult<void> merge_members(json::Value& into, const json::Value& a, const json::Value& b, const std::string& path);
  SchemaResult<json::Value> member_schema(const json::Value& a, const json::Value& b, std::string_view key,
                                          const std::string& path);
  SchemaResult<void> merge_items(json::Value& into, const json::Value& other, const std::string& path);
  const json::Value& followed(const json::Value& schema) const;
  bool disjoint_objects(const json::Value& a, const json::Value& b, int depth) const;
  bool take(const json::Value& value);

  const json::Value& root_;
  const SchemaLimits& limits_;
  std::size_t copied_ = 0;  // values, by all merges
};

}  // namespace k3::grammar
