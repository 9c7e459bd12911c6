// Whether what was made of each reference can ever end: a schema that needs itself has no documents.
#include <algorithm>

#include "model/grammar/schema_reader.hpp"

namespace k3::grammar {
namespace {

// Rules outside first .. first + known.size() are taken to end.
bool ends(const Expression& e, std::size_t first, const std::vector<char>& known) {
  switch (e.kind()) {
    case Expression::Kind::bytes:
    case Expression::Kind::token:
      return true;
    case Expression::Kind::byte_class:
      return e.set().any();
    case Expression::Kind::sequence:
      return std::all_of(e.parts().begin(), e.parts().end(), [&](const Expression& part) { return ends(part, first, known); });
    case Expression::Kind::choice:
      return std::any_of(e.parts().begin(), e.parts().end(), [&](const Expression& part) { return ends(part, first, known); });
    case Expression::Kind::repeat:
      return e.min() == 0 || ends(e.parts().front(), first, known);
    case Expression::Kind::rule:
      return e.index() < first || e.index() - first >= known.size() || known[e.index() - first] != 0;
  }
  return true;
}

void collect(const Expression& e, std::vector<RuleIndex>& out) {
  if (e.kind() == Expression::Kind::rule) out.push_back(e.index());
  for (const Expression& part : e.parts()) collect(part, out);
}

}  // namespace

SchemaResult<void> SchemaReader::check_that_all_end() const {
  const std::size_t count = rules_.size() - first_rule_;
  std::vector<char> known(count, 0);
  std::vector<std::vector<RuleIndex>> waiting(count);
  std::vector<RuleIndex> pending;
  for (RuleIndex i = 0; i < count; ++i) {
    const auto rule = static_cast<RuleIndex>(first_rule_ + i);
    std::vector<RuleIndex> used;
    collect(rules_.body(rule), used);
    for (const RuleIndex other : used) {
      if (other >= first_rule_) waiting[other - first_rule_].push_back(i);
    }
    pending.push_back(i);
  }
  while (!pending.empty()) {
    const RuleIndex i = pending.back();
    pending.pop_back();
    if (known[i] != 0 || !ends(rules_.body(static_cast<RuleIndex>(first_rule_ + i)), first_rule_, known)) continue;
    known[i] = 1;
    pending.insert(pending.end(), waiting[i].begin(), waiting[i].end());
  }
  for (const Reference& reference : references_) {
    if (known[reference.rule - first_rule_] == 0)
      return SchemaError{"no document can satisfy this: it needs itself without end", reference.path};
  }
  return {};
}

}  // namespace k3::grammar
