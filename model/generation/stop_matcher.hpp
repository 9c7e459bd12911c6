// Stop strings over a text that arrives in pieces: where the first one completes, and how much might still become one.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace k3::generation {

// One Knuth-Morris-Pratt automaton a stop string, fed byte by byte, so the outcome cannot depend on where the pieces were cut. The
// match that completes first wins; of several that complete at the same byte the longest, so that nothing of any of them is shown.
class StopMatcher {
 public:
  // Empty strings are ignored.
  explicit StopMatcher(const std::vector<std::string>& stops);

  // Text that is now certain to be before any stop string. After a match everything is ignored.
  std::string push(std::string_view text);
  // The text ends here (or another channel begins): what was held back, and forgets it.
  std::string flush();
  bool matched() const { return !match_.empty(); }
  std::string_view match() const { return match_; }  // the stop string that completed; empty: none has

 private:
  struct Pattern {
    std::string text;
    std::vector<std::size_t> border;  // [n]: length of the longest proper border of text[0..n]
    std::size_t seen = 0;             // how much of the pattern the text now ends with
  };
  static std::size_t advance(const Pattern& pattern, char byte);

  std::vector<Pattern> patterns_;
  std::string held_;  // always the longest tail that is a proper prefix of a pattern
  std::string match_;
};

}  // namespace k3::generation
