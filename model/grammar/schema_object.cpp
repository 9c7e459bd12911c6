// Objects: declared members in their order, then others.
#include <algorithm>
#include <set>
#include <utility>

#include "model/grammar/numbers.hpp"
#include "model/grammar/schema_reader.hpp"

namespace k3::grammar {

using json::Value;
using E = Expression;

Expression separator(std::string_view mark) { return E::sequence({E::bytes(mark), E::optional(E::bytes(" "))}); }

Expression object_key(std::string_view key) {
  return E::sequence({E::bytes("\"" + json_spelling(code_points(key)) + "\""), separator(":")});
}

SchemaResult<std::vector<SchemaReader::Member>> SchemaReader::members(const Value& schema, const Place& place) {
  std::vector<Member> out;
  if (const Value* properties = schema.find("properties")) {
    if (!properties->is_object()) return SchemaError{"properties must be an object", place.path + "/properties"};
    for (const json::Member* member : json::unique_members(*properties)) {
      out.push_back({member->key, member->value, false, place.below("properties", member->key)});
    }
  }
  if (auto done = add_required(schema, out, place); !done) return done.error();
  if (auto done = apply_patterns(schema, out, place); !done) return done.error();
  if (out.size() > limits_.properties) {
    return SchemaError{"more than " + std::to_string(limits_.properties) + " properties", place.path + "/properties"};
  }
  return out;
}

SchemaResult<void> SchemaReader::add_required(const Value& schema, std::vector<Member>& members, const Place& place) {
  const Value* required = schema.find("required");
  if (required == nullptr) return {};
  if (!required->is_array()) return SchemaError{"required must be a list of names", place.path + "/required"};
  std::map<std::string, std::size_t> index;
  for (std::size_t i = 0; i < members.size(); ++i) index[members[i].key] = i;
  const Value* others = schema.find("additionalProperties");
  for (const Value& name : required->items) {
    if (!name.is_string()) return SchemaError{"required must be a list of names", place.path + "/required"};
    if (const auto known = index.find(name.text); known != index.end()) {
      members[known->second].required = true;
      continue;
    }
    index[name.text] = members.size();
    // Described by patternProperties, perhaps; else it is one of the others.
    members.push_back({name.text, others != nullptr ? *others : true_schema(), true, place.below("required")});
  }
  return {};
}

SchemaResult<void> SchemaReader::apply_patterns(const Value& schema, std::vector<Member>& members, const Place& place) {
  const Value* patterns = schema.find("patternProperties");
  if (patterns == nullptr) return {};
  if (!patterns->is_object()) return SchemaError{"patternProperties must be an object", place.path + "/patternProperties"};
  const Value* properties = schema.find("properties");
  for (const json::Member* entry : json::unique_members(*patterns)) {
    const Place at = place.below("patternProperties", entry->key);
    auto names = pattern(entry->key, at);
    if (!names) return names.error();
    for (Member& member : members) {
      if (!names->accepts(code_points(member.key))) continue;
      const bool declared = properties != nullptr && properties->find(member.key) != nullptr;
      // additionalProperties does not speak of what a pattern describes. Two patterns for one name are refused in others().
      auto merged = set_.merge(declared ? member.schema : true_schema(), entry->value, at.path);
      if (!merged) return merged.error();
      member.schema = std::move(*merged);
    }
  }
  return {};
}

SchemaResult<Expression> SchemaReader::named(const Automaton& names, const Expression& value) {
  const E key = names.is_all() ? any_string(0, unbounded) : in_quotes(names.content(rules_, Spelling::json));
  return E::sequence({key, separator(":"), value});
}

SchemaResult<std::optional<Expression>> SchemaReader::others(const Value& schema, const std::vector<std::u32string>& names,
                                                             const Place& place) {
  const SchemaError too_large{"names and patterns of members together need too many states; make it smaller", place.path};
  const Value *patterns = schema.find("patternProperties"), *additional = schema.find("additionalProperties");
  const bool closed = additional != nullptr && additional->is_bool() && !additional->boolean;
  // Where members are described, nothing else is written unless it is asked for.
  const bool wanted = !closed && (additional != nullptr || (patterns == nullptr && schema.find("properties") == nullptr));
  if (!wanted && patterns == nullptr) return std::optional<Expression>();
  const Automaton taken = Automaton::of_literals(names);
  std::vector<Expression> options;
  auto remaining = Automaton::all_strings().without(taken, budget_);
  if (!remaining) return too_large;
  std::vector<Automaton> described;
  for (const json::Member* entry : patterns != nullptr ? json::unique_members(*patterns) : std::vector<const json::Member*>{}) {
    const Place at = place.below("patternProperties", entry->key);
    auto matching = pattern(entry->key, at);
    if (!matching) return matching.error();
    for (const Automaton& other : described) {
      const auto both = matching->both(other, budget_);
      if (!both) return too_large;
      if (!both->empty()) return SchemaError{"patternProperties: patterns that a name may match both are not supported", at.path};
    }
    const auto free = matching->without(taken, budget_);
    remaining = remaining->without(*matching, budget_);
    described.push_back(std::move(*matching));
    if (!free || !remaining) return too_large;
    if (free->empty() || (entry->value.is_bool() && !entry->value.boolean)) continue;
    auto value = read(entry->value, at);
    if (!value) return value.error();
    auto member = named(*free, *value);
    if (!member) return member.error();
    options.push_back(std::move(*member));
  }
  if (wanted && !remaining->empty()) {
    auto value = additional != nullptr ? read(*additional, place.below("additionalProperties")) : any();
    if (!value) return value.error();
    auto member = named(*remaining, *value);
    if (!member) return member.error();
    options.push_back(std::move(*member));
  }
  if (options.empty()) return std::optional<Expression>();
  return std::optional(E::rule(rules_.add(E::choice(std::move(options)))));
}

SchemaResult<Expression> SchemaReader::object(const Value& schema, const Place& place) {
  auto declared = members(schema, place);
  if (!declared) return declared.error();
  std::vector<std::u32string> names;
  std::vector<Expression> values;
  std::vector<Member> written;
  for (Member& member : *declared) {
    names.push_back(code_points(member.key));
    if (!take_literal(member.key.size())) {
      return SchemaError{"more than " + std::to_string(limits_.literal_bytes) + " bytes of names and values",
                         place.path + "/properties"};
    }
    if (member.schema.is_bool() && !member.schema.boolean) {
      if (member.required)
        return SchemaError{"required: " + json::quoted(member.key) + " may not be there", place.path + "/required"};
      continue;
    }
    auto value = read(member.schema, member.place);
    if (!value) return value;
    values.push_back(E::sequence({object_key(member.key), std::move(*value)}));
    written.push_back(std::move(member));
  }
  const auto other = others(schema, names, place);
  if (!other) return other.error();
  const auto min = count(schema, "minProperties", 0, place), max = count(schema, "maxProperties", unbounded, place);
  if (!min || !max) return min ? max.error() : min.error();
  const auto required =
      static_cast<std::size_t>(std::count_if(written.begin(), written.end(), [](const Member& m) { return m.required; }));
  std::uint32_t more = unbounded;
  if (*max != unbounded) {
    if (*max < required || (*max < written.size())) {
      return SchemaError{"maxProperties below the number of properties is not supported", place.path + "/maxProperties"};
    }
    more = *max - static_cast<std::uint32_t>(written.size());
  }
  const bool one_other = *min == 1 && written.empty() && *other && more > 0;
  if (*min > required && !one_other) {
    return SchemaError{"minProperties above the number of required properties is not supported", place.path + "/minProperties"};
  }
  // From the last member to the first: `here` is a member from here on, with what follows it; `may_end`: there need be none.
  std::optional<E> here;
  bool may_end = !one_other;
  if (*other && more > 0) {
    here = E::sequence({**other, E::repeat(E::sequence({separator(","), **other}), 0, more == unbounded ? unbounded : more - 1)});
  }
  const auto or_end = [&may_end](E members) { return may_end ? E::optional(std::move(members)) : std::move(members); };
  for (std::size_t i = values.size(); i-- > 0;) {
    if (here) here = E::rule(rules_.add(std::move(*here)));  // mentioned twice
    E member = std::move(values[i]);
    // One comma for all that may follow, so that there is one place to be in behind a member, however many are left.
    if (here) member = E::sequence({std::move(member), or_end(E::sequence({separator(","), *here}))});
    may_end = may_end && !written[i].required;
    here = written[i].required || !here ? std::move(member) : E::choice({std::move(member), *here});
  }
  return E::sequence({E::bytes("{"), here ? or_end(std::move(*here)) : E(), E::bytes("}")});
}

Expression any_json_value(Rules& rules) {
  const RuleIndex value = rules.reserve();
  const auto list = [](const E& item) {
    return E::optional(E::sequence({item, E::repeat(E::sequence({separator(","), item}), 0, unbounded)}));
  };
  // Their contents are rules, so that a level takes two frames as it does elsewhere.
  const E items = E::rule(rules.add(list(E::rule(value))));
  const E members = E::rule(rules.add(list(E::sequence({any_string(0, unbounded), separator(":"), E::rule(value)}))));
  rules.define(
      value, E::choice({E::bytes("null"), E::bytes("true"), E::bytes("false"), any_string(0, unbounded), *number_within({}, {}),
                        E::sequence({E::bytes("["), items, E::bytes("]")}), E::sequence({E::bytes("{"), members, E::bytes("}")})}));
  return E::rule(value);
}

Expression any_json_object(Rules& rules) {
  const E member = E::sequence({any_string(0, unbounded), separator(":"), any_json_value(rules)});
  const E members = E::optional(E::sequence({member, E::repeat(E::sequence({separator(","), member}), 0, unbounded)}));
  return E::sequence({E::bytes("{"), E::rule(rules.add(members)), E::bytes("}")});
}

}  // namespace k3::grammar
