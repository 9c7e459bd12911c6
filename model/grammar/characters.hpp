// Sets of characters, and how a JSON document spells them. Each character has one spelling here: raw UTF-8, but \" \\ \b \f \n \r
// \t and
// \u00xx for what JSON does not permit raw. So two strings are equal exactly when their spellings are.
#pragma once

#include <compare>
#include <string>
#include <string_view>
#include <vector>

#include "model/grammar/expression.hpp"

namespace k3::grammar {

// Code points that are characters: surrogates are never members.
class Characters {
 public:
  struct Range {
    char32_t first, last;  // both included
    friend auto operator<=>(const Range&, const Range&) = default;
  };

  Characters() = default;
  static Characters all();
  static Characters range(char32_t first, char32_t last);  // less the surrogates in it
  static Characters of(std::u32string_view members);

  Characters operator|(const Characters& other) const;
  Characters operator~() const;

  const std::vector<Range>& ranges() const& { return ranges_; }  // ascending, disjoint, not adjacent
  const std::vector<Range>& ranges() && = delete;                // a loop over a temporary's would outlive it
  bool empty() const { return ranges_.empty(); }
  friend bool operator==(const Characters&, const Characters&) = default;

 private:
  std::vector<Range> ranges_;
};

// How a string's characters are written: between the quotes of a JSON string, or as they are.
enum class Spelling : std::uint8_t { json, raw };
Expression character(const Characters& set, Spelling spelling);  // any one of `set`
// What stands between the quotes.
std::string json_spelling(std::u32string_view text);

// Of valid UTF-8.
std::u32string code_points(std::string_view utf8);

}  // namespace k3::grammar
