// A schema, keyword by keyword, to an expression. One a call of from_json_schema.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "model/grammar/automaton.hpp"
#include "model/grammar/schema_value.hpp"

namespace k3::grammar {

// Where a schema stands: its pointer, and how many schemas hold it.
struct Place {
  std::string path;
  std::size_t depth = 0;
  Place below(std::string_view keyword) const { return {path + "/" + std::string(keyword), depth + 1}; }
  Place below(std::string_view keyword, std::string_view key) const { return below(keyword).under(pointer_token(key)); }
  Place below(std::string_view keyword, std::size_t index) const { return below(keyword).under("/" + std::to_string(index)); }
  Place under(const std::string& token) const { return {path + token, depth}; }
};

class SchemaReader {
 public:
  SchemaReader(const json::Value& root, Rules& rules, const SchemaLimits& limits);

  // All of it, with what its references lead to.
  SchemaResult<Expression> run();
  // Of an object, its declared members.
  SchemaResult<std::vector<Argument>> arguments();

 private:
  using Result = SchemaResult<Expression>;
  struct Member {
    std::string key;
    json::Value schema;
    bool required = false;
    Place place;
  };
  struct Reference {
    const json::Value* schema;
    RuleIndex rule;
    std::string path;
  };

  SchemaResult<void> read_references();
  SchemaResult<void> add_alternatives(const json::Value& schema, const Place& place, std::vector<json::Value>& out);
  SchemaResult<std::vector<std::pair<std::string_view, Expression>>> values_by_type(const Member& member);
  Result read(const json::Value& schema, const Place& place);
  SchemaResult<void> check_keywords(const json::Value& schema, const Place& place) const;
  Result reference(const json::Value& target, const Place& place);
  Result all_of(const json::Value& schema, const Place& place);
  Result alternatives(const json::Value& schema, const std::string& keyword, const Place& place);
  Result listed_values(const json::Value& schema, const Place& place);
  Result by_type(const json::Value& schema, const Place& place);

  Result string(const json::Value& schema, const Place& place);
  Result sized_string(const json::Value& schema, std::uint32_t min, std::uint32_t max, const Place& place);
  SchemaResult<Automaton> pattern(const std::string& pattern, const Place& place);
  Result number(const json::Value& schema, bool integer, const Place& place);

  Result array(const json::Value& schema, const Place& place);
  Result elements(std::vector<Expression> first, const std::optional<Expression>& other, std::uint32_t min, std::uint32_t max,
                  const Place& place);

  Result object(const json::Value& schema, const Place& place);
  SchemaResult<std::vector<Member>> members(const json::Value& schema, const Place& place);
  SchemaResult<void> add_required(const json::Value& schema, std::vector<Member>& members, const Place& place);
  SchemaResult<void> apply_patterns(const json::Value& schema, std::vector<Member>& members, const Place& place);
  // What other members may be; none: nothing. `names`: those that are taken.
  SchemaResult<std::optional<Expression>> others(const json::Value& schema, const std::vector<std::u32string>& names,
                                                 const Place& place);
  SchemaResult<Expression> named(const Automaton& names, const Expression& value);

  // A keyword that is a whole number of at least 0, or `otherwise` if it is not there.
  SchemaResult<std::uint32_t> count(const json::Value& schema, std::string_view keyword, std::uint32_t otherwise,
                                    const Place& place) const;
  SchemaResult<void> check_that_all_end() const;
  Expression any();
  bool take_literal(std::size_t bytes) {
    literal_bytes_ += bytes;
    return literal_bytes_ <= limits_.literal_bytes;
  }

  const json::Value& root_;
  Rules& rules_;
  const SchemaLimits& limits_;
  const std::size_t first_rule_;
  Spelling spelling_ = Spelling::json;  // raw: strings alone are being read, none within others
  SchemaSet set_;
  AutomatonBudget budget_;
  std::optional<Expression> any_;
  std::map<const json::Value*, RuleIndex> referred_;
  // What was made of a pattern, and of all that is said of a string: said again, as many members of one schema do, it costs
  // nothing.
  std::map<std::string, Automaton> patterns_;
  std::map<std::string, Expression> strings_;
  std::vector<Reference> references_;
  std::size_t nodes_ = 0, literal_bytes_ = 0;
};

// Any string of `min` to `max` characters, with its quotes.
Expression any_string(std::uint32_t min, std::uint32_t max);
Expression in_quotes(Expression content);
// A comma or colon, and one space where the model likes to write one: without it, models that have learnt to would be put off their
// stride.
Expression separator(std::string_view mark);
Expression object_key(std::string_view key);  // with its quotes and the colon

}  // namespace k3::grammar
