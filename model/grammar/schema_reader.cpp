#include "model/grammar/schema_reader.hpp"

#include <algorithm>
#include <span>
#include <utility>

#include "model/grammar/numbers.hpp"

namespace k3::grammar {

using json::Value;

namespace {

// Any of `texts`, which are sorted, all different and alike up to `from`. Beginnings they share are written once, `levels` deep: of
// thousands of values there are then few places to be in at once.
Expression one_of(std::span<const std::string> texts, std::size_t from, int levels) {
  std::vector<Expression> options;
  for (std::size_t i = 0; i < texts.size();) {
    const std::string& first = texts[i];
    std::size_t end = i + 1;
    while (levels > 0 && first.size() > from && end < texts.size() && texts[end][from] == first[from]) ++end;
    if (end == i + 1) {
      options.push_back(Expression::bytes(std::string_view(first).substr(from)));
    } else {
      const std::string& last = texts[end - 1];
      const auto differ = std::mismatch(first.begin(), first.end(), last.begin(), last.end()).first;
      const auto shared = static_cast<std::size_t>(differ - first.begin());
      options.push_back(Expression::sequence({Expression::bytes(std::string_view(first).substr(from, shared - from)),
                                              one_of(texts.subspan(i, end - i), shared, levels - 1)}));
    }
    i = end;
  }
  return Expression::choice(std::move(options));
}

}  // namespace

SchemaReader::SchemaReader(const Value& root, Rules& rules, const SchemaLimits& limits)
    : root_(root), rules_(rules), limits_(limits), first_rule_(rules.size()), set_(root, limits) {
  budget_.states = limits.states;
}

SchemaResult<Expression> SchemaReader::run() {
  auto expression = reference(root_, {});
  if (auto done = read_references(); !done) return done.error();
  return expression;
}

SchemaResult<void> SchemaReader::read_references() {
  // References are read one after the other, not within each other: a long chain of them is no deep recursion here.
  for (std::size_t i = 0; i < references_.size(); ++i) {
    const Reference next = references_[i];
    auto body = read(*next.schema, {next.path, 0});
    if (!body) return body.error();
    rules_.define(next.rule, std::move(*body));
  }
  return check_that_all_end();
}

Expression SchemaReader::any() {
  if (!any_) any_ = any_json_value(rules_);
  return *any_;
}

SchemaResult<Expression> SchemaReader::reference(const Value& target, const Place& place) {
  const auto [known, is_new] = referred_.try_emplace(&target, 0);
  if (is_new) {
    known->second = rules_.reserve();
    references_.push_back({&target, known->second, place.path});
  }
  return Expression::rule(known->second);
}

SchemaResult<void> SchemaReader::check_keywords(const Value& schema, const Place& place) const {
  for (const json::Member& member : schema.members) {
    if (member.key == "$id" && !place.path.empty()) {
      return SchemaError{"$id is supported at the top only", place.path + "/$id"};
    }
    if (!is_annotation(member.key) && types_of_keyword(member.key) == 0) {
      return SchemaError{json::quoted(member.key) + " is not supported", place.path + pointer_token(member.key)};
    }
  }
  return {};
}

SchemaResult<Expression> SchemaReader::read(const Value& schema, const Place& place) {
  if (++nodes_ > limits_.nodes)
    return SchemaError{"more than " + std::to_string(limits_.nodes) + " schemas; make it smaller", place.path};
  if (place.depth > limits_.depth) {
    return SchemaError{"schemas nested more than " + std::to_string(limits_.depth) + " deep; use $ref", place.path};
  }
  if (schema.is_bool()) {
    if (!schema.boolean) return SchemaError{"false: no document is valid here", place.path};
    return any();
  }
  if (!schema.is_object()) return SchemaError{"a schema must be an object or a boolean", place.path};
  if (auto known = check_keywords(schema, place); !known) return known.error();
  if (const Value* pointer = schema.find("$ref")) {
    auto target = set_.resolve(*pointer, place.path);
    if (!target) return target.error();
    if (set_.without(schema, "$ref").members.empty()) return reference(**target, {pointer->text.substr(1), 0});
    return all_of(schema, place);
  }
  if (schema.find("allOf") != nullptr) return all_of(schema, place);
  for (const char* keyword : {"anyOf", "oneOf"}) {
    if (schema.find(keyword) != nullptr) return alternatives(schema, keyword, place);
  }
  if (schema.find("enum") != nullptr || schema.find("const") != nullptr) return listed_values(schema, place);
  return by_type(schema, place);
}

SchemaResult<Expression> SchemaReader::all_of(const Value& schema, const Place& place) {
  auto merged = set_.merge(schema, true_schema(), place.path);
  if (!merged) return merged.error();
  return read(*merged, {place.path, place.depth + 1});
}

SchemaResult<Expression> SchemaReader::alternatives(const Value& schema, const std::string& keyword, const Place& place) {
  const Value& list = *schema.find(keyword);
  const Place inner = place.below(keyword);
  if (!list.is_array() || list.items.empty()) return SchemaError{keyword + " must be a list of schemas", inner.path};
  const Value beside = set_.without(schema, keyword);
  std::vector<Value> merged;
  std::vector<Expression> options;
  for (std::size_t i = 0; i < list.items.size(); ++i) {
    const Value& item = list.items[i];
    if (item.is_bool() && !item.boolean) continue;
    const Place at = place.below(keyword, i);
    if (item.is_object()) {
      if (auto known = check_keywords(item, at); !known) return known.error();
    }
    const Value* option = &item;
    if (!beside.members.empty()) {
      auto both = set_.merge(beside, item, at.path);
      if (!both) return both.error();
      merged.push_back(std::move(*both));
      option = &merged.back();
    } else if (keyword == "oneOf") {
      merged.push_back(item);
    }
    auto expression = read(*option, at);
    if (!expression) return expression;
    options.push_back(std::move(*expression));
  }
  if (options.empty()) return SchemaError{keyword + ": no document is valid here", inner.path};
  constexpr std::size_t most_compared = 256;
  if (keyword == "oneOf" && merged.size() > most_compared)
    return SchemaError{"oneOf of more than 256 schemas is not supported", inner.path};
  for (std::size_t i = 0; keyword == "oneOf" && i < merged.size(); ++i) {
    for (std::size_t k = 0; k < i; ++k) {
      if (set_.disjoint(merged[k], merged[i])) continue;
      return SchemaError{"oneOf: a document may be valid against entries " + std::to_string(k) + " and " + std::to_string(i) +
                             "; use anyOf, or a required property that is a different const in each",
                         inner.path};
    }
  }
  return Expression::choice(std::move(options));
}

SchemaResult<Expression> SchemaReader::listed_values(const Value& schema, const Place& place) {
  const Value *one = schema.find("const"), *list = schema.find("enum");
  const std::string keyword = list != nullptr ? "enum" : "const";
  if (list != nullptr && !list->is_array()) return SchemaError{"enum must be a list", place.path + "/enum"};
  const auto types = declared_types(schema, place.path);
  if (!types) return types.error();
  for (const json::Member& member : schema.members) {
    const std::string& key = member.key;
    if (is_annotation(key) || key == "type" || key == "enum" || key == "const") continue;
    return SchemaError{key + " beside " + keyword + " is not supported; list the values that are valid",
                       place.path + pointer_token(key)};
  }
  std::vector<std::string> texts;
  for (const Value& value : list != nullptr ? list->items : std::vector<Value>{*one}) {
    if ((type_of(value) & *types) == 0 || (one != nullptr && !equal(value, *one))) continue;
    std::string text;
    if (spelling_ == Spelling::json) {
      json::Writer(text).value(value);
    } else {
      text = value.text;
    }
    if (!take_literal(text.size())) {
      return SchemaError{"more than " + std::to_string(limits_.literal_bytes) + " bytes of names and values",
                         place.path + "/" + keyword};
    }
    texts.push_back(std::move(text));
  }
  if (list != nullptr && list->items.empty()) return SchemaError{"enum: a list without values", place.path + "/" + keyword};
  if (texts.empty()) return SchemaError{keyword + ": no value is of the declared type", place.path + "/" + keyword};
  std::sort(texts.begin(), texts.end());
  texts.erase(std::unique(texts.begin(), texts.end()), texts.end());
  constexpr int levels = 6;
  return one_of(texts, 0, levels);
}

SchemaResult<Expression> SchemaReader::by_type(const Value& schema, const Place& place) {
  auto types = declared_types(schema, place.path);
  if (!types) return types.error();
  std::uint32_t spoken_of = 0;
  for (const json::Member& member : schema.members) {
    const std::uint32_t about = is_annotation(member.key) ? 0 : types_of_keyword(member.key);
    if (about != type_any) spoken_of |= about;
  }
  if (schema.find("type") == nullptr && spoken_of == 0) return any();
  // Without a type, documents are of the types that the keywords speak of.
  if (schema.find("type") == nullptr) types = spoken_of;
  std::vector<Expression> options;
  SchemaResult<void> good;
  const auto add = [&](Result expression) {
    if (!expression) {
      if (good) good = expression.error();
    } else {
      options.push_back(std::move(*expression));
    }
  };
  if ((*types & type_null) != 0) options.push_back(Expression::bytes("null"));
  if ((*types & type_boolean) != 0) options.push_back(Expression::choice({Expression::bytes("true"), Expression::bytes("false")}));
  if ((*types & type_string) != 0) add(string(schema, place));
  if ((*types & (type_integer | type_fraction)) != 0) add(number(schema, (*types & type_fraction) == 0, place));
  if ((*types & type_array) != 0) add(array(schema, place));
  if ((*types & type_object) != 0) add(object(schema, place));
  if (!good) return good.error();
  return Expression::choice(std::move(options));
}

SchemaResult<Expression> SchemaReader::number(const Value& schema, bool integer, const Place& place) {
  std::optional<Bound> least, most;
  const auto read_bound = [&](const char* keyword, bool exclusive, std::optional<Bound>& bound,
                              bool largest) -> SchemaResult<void> {
    const Value* value = schema.find(keyword);
    if (value == nullptr) return {};
    const auto digits = value->is_number() ? decimal(value->text) : std::nullopt;
    if (!digits) return SchemaError{std::string(keyword) + " must be a number of at most 400 digits", place.path + "/" + keyword};
    if (bound) {
      const double other = *Value(*schema.find(largest ? "minimum" : "maximum")).as_double(), mine = *value->as_double();
      const bool stricter = largest ? mine >= other : mine <= other;
      if (!stricter) return {};
    }
    bound = Bound{*digits, exclusive};
    return {};
  };
  for (auto done : {read_bound("minimum", false, least, true), read_bound("exclusiveMinimum", true, least, true),
                    read_bound("maximum", false, most, false), read_bound("exclusiveMaximum", true, most, false)}) {
    if (!done) return done.error();
  }
  if (const Value* step = schema.find("multipleOf")) {
    if (!step->is_number() || *step->as_double() != 1) {
      return SchemaError{"multipleOf is not supported, except 1", place.path + "/multipleOf"};
    }
    integer = true;
  }
  auto expression = integer ? integer_within(least, most) : number_within(least, most);
  if (expression) return *expression;
  const char* keyword = most ? (schema.find("maximum") != nullptr ? "maximum" : "exclusiveMaximum")
                             : (schema.find("minimum") != nullptr ? "minimum" : "exclusiveMinimum");
  return SchemaError{std::string(keyword) + ": " + expression.error(), place.path + "/" + keyword};
}

SchemaResult<std::uint32_t> SchemaReader::count(const Value& schema, std::string_view keyword, std::uint32_t otherwise,
                                                const Place& place) const {
  const Value* value = schema.find(keyword);
  if (value == nullptr) return otherwise;
  const auto number = value->as_int();
  // `unbounded` itself is not a count.
  if (!number || *number < 0 || *number >= unbounded) {
    return SchemaError{std::string(keyword) + " must be a whole number of at least 0 and below 4294967295",
                       place.path + "/" + std::string(keyword)};
  }
  return static_cast<std::uint32_t>(*number);
}

SchemaResult<Expression> from_json_schema(const Value& schema, Rules& rules, const SchemaLimits& limits) {
  return SchemaReader(schema, rules, limits).run();
}

}  // namespace k3::grammar
