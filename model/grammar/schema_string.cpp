// Strings and arrays.
#include <algorithm>
#include <utility>

#include "model/grammar/formats.hpp"
#include "model/grammar/pattern.hpp"
#include "model/grammar/schema_reader.hpp"

namespace k3::grammar {

using json::Value;
using E = Expression;

Expression in_quotes(Expression content) { return E::sequence({E::bytes("\""), std::move(content), E::bytes("\"")}); }

Expression any_string(std::uint32_t min, std::uint32_t max) {
  static const E any = character(Characters::all(), Spelling::json);
  return in_quotes(E::repeat(any, min, max));
}

SchemaResult<Automaton> SchemaReader::pattern(const std::string& pattern, const Place& place) {
  if (const auto known = patterns_.find(pattern); known != patterns_.end()) return known->second;
  const auto tree = parse_pattern(pattern);
  if (!tree) return SchemaError{"pattern " + json::quoted(pattern) + ": " + tree.error(), place.path};
  auto automaton = pattern_automaton(*tree, limits_.pattern_size, budget_);
  if (!automaton) return SchemaError{"pattern " + json::quoted(pattern) + ": " + automaton.error(), place.path};
  if (automaton->empty()) return SchemaError{"pattern " + json::quoted(pattern) + " matches no string", place.path};
  return patterns_.emplace(pattern, std::move(*automaton)).first->second;
}

SchemaResult<Expression> SchemaReader::string(const Value& schema, const Place& place) {
  const auto min = count(schema, "minLength", 0, place), max = count(schema, "maxLength", unbounded, place);
  if (!min || !max) return min ? max.error() : min.error();
  if (*min > *max) return SchemaError{"maxLength is less than minLength", place.path + "/maxLength"};
  std::string said = std::to_string(*min) + " " + std::to_string(*max) + (spelling_ == Spelling::raw ? " raw" : " json");
  for (const char* keyword : {"pattern", "format"}) {
    said += '\0';
    if (const Value* value = schema.find(keyword)) json::Writer(said).value(*value);
  }
  if (const auto known = strings_.find(said); known != strings_.end()) return known->second;
  auto made = sized_string(schema, *min, *max, place);
  if (made) strings_.emplace(std::move(said), *made);
  return made;
}

// Strings of `min` to `max` characters that are as `pattern` and `format` say.
SchemaResult<Expression> SchemaReader::sized_string(const Value& schema, std::uint32_t min, std::uint32_t max, const Place& place) {
  std::optional<Automaton> strings;
  std::string last_keyword;
  for (const std::string keyword : {"pattern", "format"}) {
    const Value* value = schema.find(keyword);
    if (value == nullptr) continue;
    if (!value->is_string()) return SchemaError{keyword + " must be a string", place.path + "/" + keyword};
    const std::string text = keyword == "pattern" ? value->text : format_pattern(value->text);
    if (text.empty() && keyword == "format") {
      return SchemaError{"format " + json::quoted(value->text) + " is not supported; there are " + std::string(known_formats()),
                         place.path + "/format"};
    }
    auto automaton = pattern(text, place.below(keyword));
    if (!automaton) return automaton.error();
    auto both = strings ? strings->both(*automaton, budget_) : std::optional(std::move(*automaton));
    if (!both)
      return SchemaError{"pattern and format together need too many states; simplify the pattern", place.path + "/pattern"};
    strings = std::move(*both);
    last_keyword = keyword;
  }
  if (!strings || strings->is_all()) {
    if (spelling_ == Spelling::json) return any_string(min, max);
    return E::repeat(character(Characters::all(), spelling_), min, max);
  }
  auto sized = strings->of_length(min, max, budget_);
  if (!sized) {
    return SchemaError{
        last_keyword + " and length together need too many states; put the length into the pattern, or make it smaller",
        place.path + "/" + last_keyword};
  }
  if (sized->empty())
    return SchemaError{last_keyword + " and the keywords beside it have no string in common", place.path + "/" + last_keyword};
  E content = sized->content(rules_, spelling_);
  return spelling_ == Spelling::json ? in_quotes(std::move(content)) : content;
}

SchemaResult<Expression> SchemaReader::array(const Value& schema, const Place& place) {
  const auto min = count(schema, "minItems", 0, place), max = count(schema, "maxItems", unbounded, place);
  if (!min || !max) return min ? max.error() : min.error();
  if (*min > *max) return SchemaError{"maxItems is less than minItems", place.path + "/maxItems"};
  if (const Value* unique = schema.find("uniqueItems");
      unique != nullptr && !(unique->is_bool() && (!unique->boolean || *max <= 1))) {
    return SchemaError{"uniqueItems is not supported, except false or with maxItems of at most 1", place.path + "/uniqueItems"};
  }
  std::vector<Expression> first;
  const Value *prefix = schema.find("prefixItems"), *items = schema.find("items");
  if (prefix != nullptr) {
    if (!prefix->is_array()) return SchemaError{"prefixItems must be a list of schemas", place.path + "/prefixItems"};
    for (std::size_t i = 0; i < std::min<std::size_t>(prefix->items.size(), *max); ++i) {
      auto item = read(prefix->items[i], place.below("prefixItems", i));
      if (!item) return item;
      first.push_back(std::move(*item));
    }
  }
  std::optional<Expression> other;
  if (items != nullptr && items->is_array())
    return SchemaError{"items as a list is not supported; use prefixItems", place.path + "/items"};
  const bool closed = items != nullptr && items->is_bool() && !items->boolean;
  // A tuple is not made longer than it is described, unless it must be.
  const bool wanted = items != nullptr || prefix == nullptr || *min > first.size();
  if (!closed && wanted && *max > first.size()) {
    auto item = items != nullptr ? read(*items, place.below("items")) : any();
    if (!item) return item;
    // A rule, since it is mentioned more than once.
    other = E::rule(rules_.add(std::move(*item)));
  }
  if (!other && *min > first.size()) return SchemaError{"minItems: there cannot be so many", place.path + "/minItems"};
  return elements(std::move(first), other, *min, *max, place);
}

SchemaResult<Expression> SchemaReader::elements(std::vector<Expression> first, const std::optional<Expression>& other,
                                                std::uint32_t min, std::uint32_t max, const Place&) {
  const auto size = static_cast<std::uint32_t>(first.size());
  const auto less = [](std::uint32_t bound, std::uint32_t taken) {
    return bound == unbounded ? unbounded : bound - std::min(bound, taken);
  };
  // `rest`: what may follow when `size` elements, or one, have been written.
  const std::uint32_t written = std::max<std::uint32_t>(size, 1);
  E rest;
  if (other) rest = E::repeat(E::sequence({separator(","), *other}), less(min, written), less(max, written));
  if (size == 0) {
    E all = other ? E::sequence({*other, rest}) : E();
    if (min == 0) all = E::optional(std::move(all));
    return E::sequence({E::bytes("["), std::move(all), E::bytes("]")});
  }
  for (std::uint32_t i = size; i-- > 0;) {
    const bool may_end = i >= min;
    E here = E::sequence({i > 0 ? separator(",") : E(), std::move(first[i]), std::move(rest)});
    rest = E::rule(rules_.add(may_end ? E::optional(std::move(here)) : std::move(here)));
  }
  return E::sequence({E::bytes("["), std::move(rest), E::bytes("]")});
}

}  // namespace k3::grammar
