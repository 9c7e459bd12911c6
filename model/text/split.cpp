#include "model/text/split.hpp"

#include <optional>

#include "model/text/unicode.hpp"
#include "model/text/utf8.hpp"

namespace k3::text {

namespace {

using Position = std::optional<std::size_t>;  // end of a match, or none

struct Character {
  char32_t code_point = 0;
  std::uint8_t properties = 0;
  std::size_t length = 0;  // 0: the end of the text, which belongs to no class

  bool is(unsigned bits) const { return (properties & bits) != 0; }
  bool han() const { return is(unicode::han); }
  bool line_end() const { return code_point == '\r' || code_point == '\n'; }
  // [\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]] and [\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]: `caseless` is what they share.
  bool caseless() const { return is(unicode::other_letter | unicode::mark) && !han(); }
  bool head() const { return caseless() || is(unicode::upper); }
  bool tail() const { return caseless() || is(unicode::lower); }
  bool prefix() const { return length > 0 && !line_end() && !is(unicode::letter | unicode::number); }
  bool symbol() const { return length > 0 && !is(unicode::space | unicode::letter | unicode::number); }
};

class Scanner {
 public:
  explicit Scanner(std::string_view text) : text_(text), table_(unicode::property_table()) {}

  std::size_t piece_end(std::size_t begin) const {
    const Character first = at(begin);
    if (first.han()) return run_end(begin, [](const Character& c) { return c.han(); });
    // Each alternative tries its optional prefix first, and goes without only when that fails.
    const std::size_t after_prefix = begin + first.length;
    if (first.prefix()) {
      if (const Position end = small_word(after_prefix)) return contraction_end(*end);
    }
    if (const Position end = small_word(begin)) return contraction_end(*end);
    if (first.prefix()) {
      if (const Position end = capital_word(after_prefix)) return contraction_end(*end);
    }
    if (const Position end = capital_word(begin)) return contraction_end(*end);
    if (first.is(unicode::number)) return number_end(begin);
    if (const Position end = symbols(begin)) return *end;
    return space_end(begin);
  }

 private:
  Character at(std::size_t position) const {
    if (position >= text_.size()) return {};
    const utf8::Decoded decoded = utf8::decode_valid(text_, position);
    return {decoded.code_point, table_[decoded.code_point], decoded.length};
  }

  template <class Belongs>
  std::size_t run_end(std::size_t position, Belongs belongs) const {
    for (;;) {
      const Character c = at(position);
      if (c.length == 0 || !belongs(c)) return position;
      position += c.length;
    }
  }

  // head* tail+ from `position`. The heads are taken greedily; when no tail follows them, they give back up to the last caseless
  // character, which can be the tail. A run of heads is walked twice at most before it is consumed, so the whole stays linear.
  Position small_word(std::size_t position) const {
    Position after_caseless;
    Character c = at(position);
    while (c.head()) {
      position += c.length;
      if (c.caseless()) after_caseless = position;
      c = at(position);
    }
    if (!c.tail()) return after_caseless;
    return run_end(position, [](const Character& t) { return t.tail(); });
  }

  // head+ tail* from `position`, where small_word has failed: so no tail follows the heads, and none is among them.
  Position capital_word(std::size_t position) const {
    const std::size_t end = run_end(position, [](const Character& c) { return c.head(); });
    return end > position ? Position(end) : std::nullopt;
  }

  // (?i:'s|'t|'re|'ve|'m|'ll|'d)?
  std::size_t contraction_end(std::size_t position) const {
    if (position >= text_.size() || text_[position] != '\'') return position;
    const auto small = [&](std::size_t i) {
      const unsigned char byte = i < text_.size() ? static_cast<unsigned char>(text_[i]) : 0;
      return byte >= 'A' && byte <= 'Z' ? static_cast<char>(byte + 32) : static_cast<char>(byte);
    };
    const char first = small(position + 1), second = small(position + 2);
    if (first == 's' || first == 't' || first == 'm' || first == 'd') return position + 2;
    if ((first == 'r' && second == 'e') || (first == 'v' && second == 'e') || (first == 'l' && second == 'l')) return position + 3;
    // Unicode folds the long s to s; no other letter outside ASCII folds to one of these.
    if (text_.substr(position + 1, 2) == "\u017f") return position + 3;
    return position;
  }

  std::size_t number_end(std::size_t position) const {
    for (int digits = 0; digits < 3; ++digits) {
      const Character c = at(position);
      if (!c.is(unicode::number)) break;
      position += c.length;
    }
    return position;
  }

  Position symbols(std::size_t begin) const {
    const std::size_t first = begin + (text_[begin] == ' ' ? 1 : 0);
    const std::size_t end = run_end(first, [](const Character& c) { return c.symbol(); });
    if (end == first) return std::nullopt;
    return run_end(end, [](const Character& c) { return c.line_end(); });
  }

  // Alternatives 6 to 8. Greedy white space gives back: to its last line end; else, before more text, its last character.
  std::size_t space_end(std::size_t begin) const {
    std::size_t position = begin, last = begin;
    Position after_line_end;
    for (Character c = at(position); c.is(unicode::space); c = at(position)) {
      last = position;
      position += c.length;
      if (c.line_end()) after_line_end = position;
    }
    if (after_line_end) return *after_line_end;
    if (position < text_.size() && last > begin) return last;
    return position;
  }

  std::string_view text_;
  const unicode::PropertyTable& table_;
};

}  // namespace

std::size_t piece_end(std::string_view text, std::size_t begin) { return Scanner(text).piece_end(begin); }

std::vector<std::string_view> guarded_slices(std::string_view text, SliceLimits limits) {
  const unicode::PropertyTable& table = unicode::property_table();
  std::vector<std::string_view> slices;
  std::size_t slice_begin = 0, window_length = 0, run_length = 0;
  bool run_is_space = false;
  const auto cut = [&](std::size_t end) {
    slices.push_back(text.substr(slice_begin, end - slice_begin));
    slice_begin = end;
  };
  for (std::size_t position = 0; position < text.size();) {
    const utf8::Decoded c = utf8::decode_valid(text, position);
    const bool is_space = unicode::python_isspace(table[c.code_point], c.code_point);
    if (window_length == limits.window) {
      cut(position);
      window_length = run_length = 0;
    }
    if (is_space != run_is_space || run_length == 0) {
      run_is_space = is_space;
      run_length = 1;
    } else if (++run_length > limits.run) {
      cut(position);
      run_length = 1;
    }
    ++window_length;
    position += c.length;
  }
  if (slice_begin < text.size()) cut(text.size());
  return slices;
}

}  // namespace k3::text
