#include <algorithm>
#include <optional>
#include <utility>

#include "model/grammar/pattern.hpp"

namespace k3::grammar {
namespace {

template <class T>
using Parsed = boost::system::result<T, std::string>;

constexpr int deepest = 100;

Characters digits() { return Characters::range('0', '9'); }
Characters words() { return digits() | Characters::range('a', 'z') | Characters::range('A', 'Z') | Characters::range('_', '_'); }
Characters spaces() {
  return Characters::of(U"\t\n\v\f\r \u00a0\u1680\u2028\u2029\u202f\u205f\u3000\ufeff") | Characters::range(0x2000, 0x200a);
}
Characters line_ends() { return Characters::of(U"\n\r\u2028\u2029"); }

PatternNode one_of(Characters characters) {
  PatternNode node;
  node.kind = PatternNode::Kind::characters;
  node.characters = std::move(characters);
  return node;
}

class PatternParser {
 public:
  explicit PatternParser(std::string_view pattern) : text_(code_points(pattern)) {}

  Parsed<PatternNode> all() {
    auto node = alternatives(0);
    if (node && at_ < text_.size()) return wrong("an unmatched )");
    return node;
  }

 private:
  bool done() const { return at_ == text_.size(); }
  char32_t peek(std::size_t ahead = 0) const { return at_ + ahead < text_.size() ? text_[at_ + ahead] : U'\0'; }
  bool take(std::u32string_view token) {
    if (text_.compare(at_, token.size(), token) != 0) return false;
    at_ += token.size();
    return true;
  }
  std::string wrong(const std::string& what) const { return what + " at character " + std::to_string(at_); }
  std::string unsupported(const std::string& what) const { return wrong(what + " is not supported, found"); }

  Parsed<PatternNode> alternatives(int depth) {
    if (depth > deepest) return wrong("groups nested more than " + std::to_string(deepest) + " deep");
    PatternNode node;
    node.kind = PatternNode::Kind::choice;
    do {
      auto part = sequence(depth);
      if (!part) return part;
      node.parts.push_back(std::move(*part));
    } while (take(U"|"));
    return node.parts.size() == 1 ? std::move(node.parts.front()) : std::move(node);
  }

  Parsed<PatternNode> sequence(int depth) {
    PatternNode node;
    node.kind = PatternNode::Kind::sequence;
    while (!done() && peek() != '|' && peek() != ')') {
      auto term = this->term(depth);
      if (!term) return term;
      node.parts.push_back(std::move(*term));
    }
    return node;
  }

  Parsed<PatternNode> term(int depth) {
    PatternNode node;
    if (peek() == '^' || peek() == '$') {
      node.kind = peek() == '^' ? PatternNode::Kind::begin : PatternNode::Kind::end;
      ++at_;
      if (is_quantifier()) return wrong("a quantifier without anything to repeat");
      return node;
    }
    auto part = atom(depth);
    return part ? quantified(std::move(*part)) : part;
  }

  bool is_quantifier() const { return peek() == '*' || peek() == '+' || peek() == '?' || peek() == '{'; }

  Parsed<PatternNode> quantified(PatternNode body) {
    std::uint32_t min = 0, max = unbounded;
    if (take(U"*")) {
    } else if (take(U"+")) {
      min = 1;
    } else if (take(U"?")) {
      max = 1;
    } else if (take(U"{")) {
      const auto first = number();
      if (!first) return wrong("a { that begins no count");
      min = max = *first;
      if (take(U",")) {
        const auto second = number();
        max = second ? *second : unbounded;
      }
      if (!take(U"}")) return wrong("a count without its }");
      if (max < min) return wrong("a count of at least " + std::to_string(min) + " and at most " + std::to_string(max));
    } else {
      return body;
    }
    take(U"?");  // lazy: it finds other matches, but not other strings
    if (is_quantifier()) return wrong("a quantifier after a quantifier");
    PatternNode node;
    node.kind = PatternNode::Kind::repeat;
    node.min = min;
    node.max = max;
    node.parts.push_back(std::move(body));
    return node;
  }

  // Large ones are as good as the largest: both are refused later.
  std::optional<std::uint32_t> number() {
    constexpr std::uint32_t largest = 1'000'000'000;
    if (peek() < '0' || peek() > '9') return std::nullopt;
    std::uint64_t value = 0;
    for (; peek() >= '0' && peek() <= '9'; ++at_) value = std::min<std::uint64_t>(value * 10 + (peek() - '0'), largest);
    return static_cast<std::uint32_t>(value);
  }

  Parsed<PatternNode> atom(int depth) {
    if (take(U"(")) return group(depth);
    if (take(U"[")) {
      auto set = character_class();
      if (!set) return set.error();
      return one_of(std::move(*set));
    }
    if (take(U".")) return one_of(~line_ends());
    if (take(U"\\")) {
      auto set = escape(false);
      if (!set) return set.error();
      return one_of(std::move(*set));
    }
    if (is_quantifier()) return wrong("a quantifier without anything to repeat");
    if (peek() == ']' || peek() == '}') return wrong("an unmatched ] or }; write \\] or \\}");
    const char32_t c = text_[at_++];
    return one_of(Characters::range(c, c));
  }

  Parsed<PatternNode> group(int depth) {
    if (take(U"?")) {
      const bool behind = peek() == '<' && (peek(1) == '=' || peek(1) == '!');
      if (behind || peek() == '=' || peek() == '!') return unsupported("look-around");
      if (take(U"<")) {
        const auto close = text_.find(U'>', at_);
        if (close == std::u32string::npos) return wrong("a group's name without its >");
        at_ = close + 1;
      } else if (!take(U":")) {
        return unsupported("this kind of group");
      }
    }
    auto inner = alternatives(depth + 1);
    if (!inner) return inner;
    if (!take(U")")) return wrong("a group without its )");
    return inner;
  }

  Parsed<Characters> character_class() {
    const bool negated = take(U"^");
    Characters set;
    while (!take(U"]")) {
      if (done()) return wrong("a class without its ]");
      auto first = class_member();
      if (!first) return first;
      const bool ranges = peek() == '-' && peek(1) != ']' && at_ + 1 < text_.size();
      if (!ranges) {
        set = set | *first;
        continue;
      }
      ++at_;
      auto last = class_member();
      if (!last) return last;
      const auto from = single(*first), to = single(*last);
      if (!from || !to) return wrong("a range between something else than two characters");
      if (*from > *to) return wrong("a range whose end is before its beginning");
      set = set | Characters::range(*from, *to);
    }
    return negated ? ~set : set;
  }

  static std::optional<char32_t> single(const Characters& set) {
    if (set.ranges().size() != 1 || set.ranges()[0].first != set.ranges()[0].last) return std::nullopt;
    return set.ranges()[0].first;
  }

  Parsed<Characters> class_member() {
    if (take(U"\\")) return escape(true);
    const char32_t c = text_[at_++];
    return Characters::range(c, c);
  }

  // After the backslash.
  Parsed<Characters> escape(bool in_class) {
    if (done()) return wrong("a \\ at the end");
    const char32_t c = text_[at_++];
    constexpr std::u32string_view letters = U"tnvfr", meanings = U"\t\n\v\f\r";
    if (const auto place = letters.find(c); place != std::u32string_view::npos) {
      return Characters::range(meanings[place], meanings[place]);
    }
    switch (c) {
      case 'd':
        return digits();
      case 'D':
        return ~digits();
      case 'w':
        return words();
      case 'W':
        return ~words();
      case 's':
        return spaces();
      case 'S':
        return ~spaces();
      case 'b':
        if (in_class) return Characters::range('\b', '\b');
        return unsupported("\\b");
      case '0':
        if (peek() >= '0' && peek() <= '9') return unsupported("an octal escape");
        return Characters::range(0, 0);
      case 'c':
        return control();
      case 'x':
        return hexadecimal(2);
      case 'u':
        return unicode();
      default:
        break;
    }
    return identity(c);
  }

  // A punctuation mark stands for itself; letters and digits are kept for meanings, most of which are not regular.
  Parsed<Characters> identity(char32_t c) {
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
    if (letter) return unsupported(std::string("\\") + static_cast<char>(c));
    return Characters::range(c, c);
  }

  Parsed<Characters> control() {
    const char32_t c = peek();
    if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'))) return wrong("a \\c without a letter");
    ++at_;
    return Characters::range(c & 31, c & 31);
  }

  std::optional<char32_t> hex_digits(std::size_t count) {
    char32_t value = 0;
    for (std::size_t i = 0; i < count; ++i) {
      const char32_t c = peek();
      const char32_t lower = c | 0x20;
      if (c >= '0' && c <= '9') {
        value = value * 16 + (c - '0');
      } else if (lower >= 'a' && lower <= 'f') {
        value = value * 16 + (lower - 'a' + 10);
      } else {
        return std::nullopt;
      }
      ++at_;
    }
    return value;
  }

  Parsed<Characters> hexadecimal(std::size_t count) {
    const auto value = hex_digits(count);
    if (!value) return wrong("an escape without its " + std::to_string(count) + " hexadecimal digits");
    return Characters::range(*value, *value);
  }

  Parsed<Characters> unicode() {
    if (take(U"{")) {
      const auto close = text_.find(U'}', at_);
      if (close == std::u32string::npos || close == at_ || close - at_ > 6)
        return wrong("a \\u{ without one to six digits and its }");
      const auto value = hex_digits(close - at_);
      if (!value || *value > 0x10ffff || !take(U"}")) return wrong("a \\u{ that names no character");
      return Characters::range(*value, *value);
    }
    auto value = hex_digits(4);
    if (!value) return wrong("a \\u without its 4 hexadecimal digits");
    if (*value >= 0xd800 && *value <= 0xdbff && take(U"\\u")) {
      const auto low = hex_digits(4);
      if (!low || *low < 0xdc00 || *low > 0xdfff) return wrong("half a surrogate pair");
      value = 0x10000 + ((*value - 0xd800) << 10) + (*low - 0xdc00);
    }
    if (*value >= 0xd800 && *value <= 0xdfff) return wrong("half a surrogate pair");
    return Characters::range(*value, *value);
  }

  std::u32string text_;
  std::size_t at_ = 0;
};

}  // namespace

boost::system::result<PatternNode, std::string> parse_pattern(std::string_view utf8) { return PatternParser(utf8).all(); }

}  // namespace k3::grammar
