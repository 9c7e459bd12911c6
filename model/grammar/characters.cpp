#include "model/grammar/characters.hpp"

#include <algorithm>
#include <array>
#include <map>

#include "model/text/utf8.hpp"

namespace k3::grammar {
namespace {

constexpr char32_t last_character = 0x10ffff, first_surrogate = 0xd800, last_surrogate = 0xdfff;

// Bytes from first to last at each place.
using ByteRange = std::pair<unsigned char, unsigned char>;
using Utf8Shape = std::vector<ByteRange>;

std::string utf8(char32_t c) {
  const auto tail = [c](int shift) { return static_cast<char>(0x80 | ((c >> shift) & 0x3f)); };
  if (c < 0x80) return {static_cast<char>(c)};
  if (c < 0x800) return {static_cast<char>(0xc0 | (c >> 6)), tail(0)};
  if (c < 0x10000) return {static_cast<char>(0xe0 | (c >> 12)), tail(6), tail(0)};
  return {static_cast<char>(0xf0 | (c >> 18)), tail(12), tail(6), tail(0)};
}

// Cuts first..last, of one length in UTF-8, into ranges in which each byte runs freely from its first to its last.
void cut_utf8(char32_t first, char32_t last, std::vector<Utf8Shape>& out) {
  for (int shift = 6; shift <= 18; shift += 6) {
    const char32_t below = (char32_t{1} << shift) - 1;
    if ((first & ~below) == (last & ~below)) break;
    if ((first & below) != 0) {
      cut_utf8(first, first | below, out);
      cut_utf8((first | below) + 1, last, out);
      return;
    }
    if ((last & below) != below) {
      cut_utf8(first, (last & ~below) - 1, out);
      cut_utf8(last & ~below, last, out);
      return;
    }
  }
  const std::string a = utf8(first), b = utf8(last);
  Utf8Shape spelling;
  for (std::size_t i = 0; i < a.size(); ++i) spelling.emplace_back(a[i], b[i]);
  out.push_back(std::move(spelling));
}

std::vector<Utf8Shape> utf8_shapes(const Characters& set) {
  constexpr std::array<Characters::Range, 4> lengths{{{0, 0x7f}, {0x80, 0x7ff}, {0x800, 0xffff}, {0x10000, last_character}}};
  std::vector<Utf8Shape> out;
  for (const auto& range : set.ranges()) {
    for (const auto& length : lengths) {
      const char32_t first = std::max(range.first, length.first), last = std::min(range.last, length.last);
      if (first <= last) cut_utf8(first, last, out);
    }
  }
  return out;
}

bool must_be_escaped(char32_t c) { return c < 0x20 || c == '"' || c == '\\'; }

std::string escaped(char32_t c) {
  constexpr std::string_view plain = "\"\\\b\f\n\r\t", letters = "\"\\bfnrt";
  const auto place = plain.find(static_cast<char>(c));
  if (place != std::string_view::npos) return {'\\', letters[place]};
  constexpr std::string_view digits = "0123456789abcdef";
  return {'\\', 'u', '0', '0', digits[c >> 4], digits[c & 15]};
}

}  // namespace

Characters Characters::all() { return range(0, last_character); }

Characters Characters::range(char32_t first, char32_t last) {
  Characters set;
  if (first < first_surrogate && first <= last) set.ranges_.push_back({first, std::min<char32_t>(last, first_surrogate - 1)});
  const char32_t upper = std::max<char32_t>(first, last_surrogate + 1);
  if (upper <= last) set.ranges_.push_back({upper, last});
  return set;
}

Characters Characters::of(std::u32string_view members) {
  Characters set;
  for (const char32_t c : members) set = set | range(c, c);
  return set;
}

Characters Characters::operator|(const Characters& other) const {
  std::vector<Range> sorted = ranges_;
  sorted.insert(sorted.end(), other.ranges_.begin(), other.ranges_.end());
  std::sort(sorted.begin(), sorted.end(), [](const Range& a, const Range& b) { return a.first < b.first; });
  Characters out;
  for (const Range& range : sorted) {
    if (!out.ranges_.empty() && range.first <= out.ranges_.back().last + 1) {
      out.ranges_.back().last = std::max(out.ranges_.back().last, range.last);
    } else {
      out.ranges_.push_back(range);
    }
  }
  return out;
}

Characters Characters::operator~() const {
  Characters out;
  char32_t next = 0;
  const auto keep = [&](char32_t first, char32_t last) {
    const Characters part = range(first, last);
    out.ranges_.insert(out.ranges_.end(), part.ranges_.begin(), part.ranges_.end());
  };
  for (const Range& r : ranges_) {
    if (r.first > next) keep(next, r.first - 1);
    next = r.last + 1;
  }
  if (next <= last_character) keep(next, last_character);
  return out;
}

Expression character(const Characters& set, Spelling spelling) {
  Characters raw;
  std::vector<Expression> options;
  std::u32string escapes;
  for (char32_t c = 0; c < 0x60; ++c) {
    if (spelling == Spelling::json && must_be_escaped(c)) escapes += c;
  }
  const Characters special = Characters::of(escapes);
  for (const auto& range : set.ranges()) {
    for (const char32_t c : escapes) {
      if (c >= range.first && c <= range.last) options.push_back(Expression::bytes(escaped(c)));
    }
  }
  raw = ~(~set | special);
  // What differs in the first byte alone is one way to write.
  std::map<Utf8Shape, ByteSet> by_tail;
  for (const Utf8Shape& shape : utf8_shapes(raw)) {
    by_tail[Utf8Shape(shape.begin() + 1, shape.end())] |= byte_range(shape.front().first, shape.front().second);
  }
  for (const auto& [tail, first] : by_tail) {
    std::vector<Expression> parts{Expression::byte_class(first)};
    for (const ByteRange& byte : tail) parts.push_back(Expression::byte_class(byte_range(byte.first, byte.second)));
    options.push_back(parts.size() == 1 ? parts.front() : Expression::sequence(std::move(parts)));
  }
  return options.size() == 1 ? options.front() : Expression::choice(std::move(options));
}

std::string json_spelling(std::u32string_view text) {
  std::string out;
  for (const char32_t c : text) out += must_be_escaped(c) ? escaped(c) : utf8(c);
  return out;
}

std::u32string code_points(std::string_view text) {
  std::u32string out;
  for (std::size_t i = 0; i < text.size();) {
    const auto decoded = text::utf8::decode_valid(text, i);
    out += decoded.code_point;
    i += decoded.length;
  }
  return out;
}

}  // namespace k3::grammar
