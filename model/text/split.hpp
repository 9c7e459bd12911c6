// K3's split rule: where a text is cut into the pieces that byte pair encoding sees one by one. The rule is a regular expression of
// eight alternatives, of which the first that matches wins, each with backtracking:
//   1  [\p{Han}]+
//   2
//   [^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?
//   3
//   [^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?
//   4  \p{N}{1,3}
//   5   ?[^\s\p{L}\p{N}]+[\r\n]*
//   6  \s*[\r\n]+
//   7  \s+(?!\S)
//   8  \s+
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

namespace k3::text {

// End of the piece that begins at `begin`; every position begins one. Linear over a whole text.
// Preconditions: `text` is valid UTF-8, begin < text.size() and lies on a code point.
std::size_t piece_end(std::string_view text, std::size_t begin);

// The reference cuts a text before it splits it: every 400,000 characters, and where a run of white space or of anything else
// exceeds 25,000. Each slice is encoded by itself.
struct SliceLimits {
  std::size_t window = 400'000;
  std::size_t run = 25'000;
};
std::vector<std::string_view> guarded_slices(std::string_view text, SliceLimits limits = {});

}  // namespace k3::text
