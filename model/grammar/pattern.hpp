// ECMAScript patterns to automata: the part of them that describes regular sets of strings.
#pragma once

#include <boost/system/result.hpp>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "model/grammar/automaton.hpp"

namespace k3::grammar {

// A pattern as a tree. Groups leave no trace: what they capture is never used.
struct PatternNode {
  enum class Kind { empty, characters, sequence, choice, repeat, begin, end };
  Kind kind = Kind::empty;
  Characters characters;
  std::vector<PatternNode> parts;  // of sequence and choice; of repeat its body
  std::uint32_t min = 0, max = 0;
};

// In unicode mode, as JSON Schema wants it. Errors are sentences that say what is not supported and where: look-around, back
// references,
// \b and \p, counts out of order, nesting deeper than 100.
boost::system::result<PatternNode, std::string> parse_pattern(std::string_view utf8);

// The strings in which the pattern is found somewhere, unless it is anchored. `size`: characters of the pattern at most, once its
// counts are written out. Errors: too large, or the budget is used up.
boost::system::result<Automaton, std::string> pattern_automaton(const PatternNode& pattern, std::size_t size,
                                                                AutomatonBudget& budget);

}  // namespace k3::grammar
