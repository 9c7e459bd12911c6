#include "model/text/split.hpp"

#include <functional>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "model/text/unicode.hpp"
#include "model/text/utf8.hpp"
#include "tests/catch.hpp"

using k3::text::guarded_slices;
using k3::text::piece_end;
namespace unicode = k3::text::unicode;
namespace utf8 = k3::text::utf8;

namespace {

std::vector<std::string> pieces(std::string_view text) {
  std::vector<std::string> out;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = piece_end(text, begin);
    REQUIRE(end > begin);
    REQUIRE(end <= text.size());
    out.emplace_back(text.substr(begin, end - begin));
    begin = end;
  }
  return out;
}

using Pieces = std::vector<std::string>;

// A regular expression matcher of the textbook kind, for comparison: each alternative is a list of greedy repetitions, tried from
// the longest to the shortest; exponential at worst, and in no way clever.
using Class = std::function<bool(char32_t)>;
struct Item {
  Class of;
  std::size_t least, most;
};
constexpr std::size_t kMany = static_cast<std::size_t>(-1);

class NaiveMatcher {
 public:
  std::size_t match(const std::u32string& text, std::size_t begin) const {
    for (const auto& [items, ending] : alternatives_) {
      if (const auto end = rest(text, begin, items, 0, ending)) return *end;
    }
    return begin;
  }

 private:
  enum class Ending { none, contraction, not_before_text };

  static unsigned properties(char32_t c) { return unicode::property_table()[c]; }
  static Class category(unsigned bits) {
    return [bits](char32_t c) { return (properties(c) & bits) != 0 && (properties(c) & unicode::han) == 0; };
  }

  static std::optional<std::size_t> finish(const std::u32string& text, std::size_t at, Ending ending) {
    if (ending == Ending::not_before_text && at < text.size() && (properties(text[at]) & unicode::space) == 0) return std::nullopt;
    if (ending != Ending::contraction) return at;
    for (const std::u32string word : {U"'s", U"'t", U"'re", U"'ve", U"'m", U"'ll", U"'d"}) {
      bool same = at + word.size() <= text.size();
      for (std::size_t i = 0; same && i < word.size(); ++i) {
        const char32_t c = text[at + i];
        same = c == word[i] || (c >= U'A' && c <= U'Z' && c + 32 == word[i]) || (c == U'\u017f' && word[i] == U's');
      }
      if (same) return at + word.size();
    }
    return at;
  }

  static std::optional<std::size_t> rest(const std::u32string& text, std::size_t at, const std::vector<Item>& items,
                                         std::size_t index, Ending ending) {
    if (index == items.size()) return finish(text, at, ending);
    const Item& item = items[index];
    std::size_t count = 0;
    while (count < item.most && at + count < text.size() && item.of(text[at + count])) ++count;
    for (;; --count) {
      if (count < item.least) return std::nullopt;
      if (const auto end = rest(text, at + count, items, index + 1, ending)) return end;
      if (count == 0) return std::nullopt;
    }
  }

  const Class han_ = [](char32_t c) { return (properties(c) & unicode::han) != 0; };
  const Class line_end_ = [](char32_t c) { return c == U'\r' || c == U'\n'; };
  const Class space_ = [](char32_t c) { return (properties(c) & unicode::space) != 0; };
  const Class blank_ = [](char32_t c) { return c == U' '; };
  const Class number_ = [](char32_t c) { return (properties(c) & unicode::number) != 0; };
  const Class prefix_ = [](char32_t c) {
    return c != U'\r' && c != U'\n' && (properties(c) & (unicode::letter | unicode::number)) == 0;
  };
  const Class symbol_ = [](char32_t c) { return (properties(c) & (unicode::space | unicode::letter | unicode::number)) == 0; };
  const Class head_ = category(unicode::upper | unicode::other_letter | unicode::mark);
  const Class tail_ = category(unicode::lower | unicode::other_letter | unicode::mark);
  const std::vector<std::pair<std::vector<Item>, Ending>> alternatives_ = {
      {{{han_, 1, kMany}}, Ending::none},
      {{{prefix_, 0, 1}, {head_, 0, kMany}, {tail_, 1, kMany}}, Ending::contraction},
      {{{prefix_, 0, 1}, {head_, 1, kMany}, {tail_, 0, kMany}}, Ending::contraction},
      {{{number_, 1, 3}}, Ending::none},
      {{{blank_, 0, 1}, {symbol_, 1, kMany}, {line_end_, 0, kMany}}, Ending::none},
      {{{space_, 0, kMany}, {line_end_, 1, kMany}}, Ending::none},
      {{{space_, 1, kMany}}, Ending::not_before_text},
      {{{space_, 1, kMany}}, Ending::none},
  };
};

std::u32string code_points(std::string_view text) {
  std::u32string out;
  for (std::size_t i = 0; i < text.size();) {
    const utf8::Decoded c = utf8::decode(text, i);
    out += c.code_point;
    i += c.length;
  }
  return out;
}

}  // namespace

TEST_CASE("split: Han stands alone") {
  CHECK(pieces("中文abc") == Pieces{"中文", "abc"});
  CHECK(pieces(" 中文") == Pieces{" ", "中文"});
  CHECK(pieces("々〇⺀一") == Pieces{"々〇⺀一"});
  CHECK(pieces("カタカナ漢字") == Pieces{"カタカナ", "漢字"});
  CHECK(pieces("ー、中") == Pieces{"ー", "、", "中"});  // shared with Han by Script_Extensions, but not Script=Han
}

TEST_CASE("split: words take one leading character that is neither letter nor digit") {
  CHECK(pieces("hello world") == Pieces{"hello", " world"});
  CHECK(pieces("a_b.c") == Pieces{"a", "_b", ".c"});
  CHECK(pieces("\ta\u00a0"
               "b") == Pieces{"\ta",
                              "\u00a0"
                              "b"});
  CHECK(pieces("\na") == Pieces{"\n", "a"});
  CHECK(pieces("1a") == Pieces{"1", "a"});
  CHECK(pieces("!!a") == Pieces{"!!", "a"});  // symbols are greedy: the second ! is not left for the word
  CHECK(pieces("\x1c"
               "a") == Pieces{"\x1c"
                              "a"});
}

TEST_CASE("split: a change from small to capital letters cuts") {
  CHECK(pieces("HelloWorld") == Pieces{"Hello", "World"});
  CHECK(pieces("HTTPServer") == Pieces{"HTTPServer"});
  CHECK(pieces("camelCASE") == Pieces{"camel", "CASE"});
  CHECK(pieces("ABC DEF") == Pieces{"ABC", " DEF"});
  CHECK(pieces("aǅb") == Pieces{"a", "ǅb"});
}

TEST_CASE("split: capitals give back to the last caseless letter or mark") {
  CHECK(pieces("ʰAB") == Pieces{"ʰ", "AB"});
  CHECK(pieces("AʰBC") == Pieces{"Aʰ", "BC"});
  CHECK(pieces("AʰBʰCD") == Pieces{"AʰBʰ", "CD"});
  CHECK(pieces("A\u0301"
               "BC") == Pieces{"A\u0301", "BC"});
  CHECK(pieces("\u0301"
               "ABC") == Pieces{"\u0301", "ABC"});  // a mark is prefix and tail: as prefix nothing small follows it
  CHECK(pieces("\u0301"
               "Abc") == Pieces{"\u0301"
                                "Abc"});
  CHECK(pieces("!\u0301") == Pieces{"!\u0301"});
  CHECK(pieces("אבAB") == Pieces{"אב", "AB"});
  CHECK(pieces("ABאב") == Pieces{"ABאב"});
}

TEST_CASE("split: contractions, in any case and with the long s") {
  CHECK(pieces("it's") == Pieces{"it's"});
  CHECK(pieces("IT'S") == Pieces{"IT'S"});
  CHECK(pieces("it'ſx") == Pieces{"it'ſ", "x"});
  CHECK(pieces("we'RE they'Ll I'vE d'D m'M t'T") == Pieces{"we'RE", " they'Ll", " I'vE", " d'D", " m'M", " t'T"});
  CHECK(pieces("don'tx") == Pieces{"don't", "x"});
  CHECK(pieces("it'x") == Pieces{"it", "'x"});
  CHECK(pieces("it'r") == Pieces{"it", "'r"});
  CHECK(pieces("it'") == Pieces{"it", "'"});
  CHECK(pieces("'s") == Pieces{"'s"});
  CHECK(pieces("1's") == Pieces{"1", "'s"});
  CHECK(pieces("中's") == Pieces{"中", "'s"});
  CHECK(pieces("\u0301's") == Pieces{"\u0301's"});
  CHECK(pieces("don\u2019t") == Pieces{"don", "\u2019t"});
}

TEST_CASE("split: digits by threes, of any kind, without a leading space") {
  CHECK(pieces("1234567") == Pieces{"123", "456", "7"});
  CHECK(pieces(" 3") == Pieces{" ", "3"});
  CHECK(pieces("٣½Ⅷ²") == Pieces{"٣½Ⅷ", "²"});
  CHECK(pieces("1〇2") == Pieces{"1〇2"});  // a Han numeral is a number once a number has begun
  CHECK(pieces("〇12") == Pieces{"〇", "12"});
}

TEST_CASE("split: symbols take a space before and line ends after") {
  CHECK(pieces(" !?\r\n\nx") == Pieces{" !?\r\n\n", "x"});
  CHECK(pieces("  !") == Pieces{" ", " !"});
  CHECK(pieces("\u00a0!") == Pieces{"\u00a0", "!"});
  CHECK(pieces("!⺀") == Pieces{"!⺀"});  // a radical is a symbol too
  CHECK(pieces("! \n") == Pieces{"!", " \n"});
  CHECK(pieces("🙂\u200d🙂") == Pieces{"🙂\u200d🙂"});
}

TEST_CASE("split: white space") {
  CHECK(pieces("a  b") == Pieces{"a", " ", " b"});
  CHECK(pieces("a   ") == Pieces{"a", "   "});
  CHECK(pieces("a  1") == Pieces{"a", " ", " ", "1"});
  CHECK(pieces("a \n \n  b") == Pieces{"a", " \n \n", " ", " b"});
  CHECK(pieces("\n\n") == Pieces{"\n\n"});
  CHECK(pieces("\r\n \t") == Pieces{"\r\n", " \t"});
  CHECK(pieces("\u3000\u3000中") == Pieces{"\u3000", "\u3000", "中"});
  CHECK(pieces("\u2028\u2029\u0085") == Pieces{"\u2028\u2029\u0085"});
}

TEST_CASE("split: the scanner agrees with naive backtracking") {
  const std::vector<std::string> alphabet = {
      "a", "s", "t", "l", "A",  "S",  "ǅ",  "ʰ",      "ſ",    "א",    "\u0301", "中",  "〇",  "⺀",     "\U00016ff0", "1",     "٣",
      "'", "!", "_", " ", "\t", "\n", "\r", "\u00a0", "🙂", "\x1c", "'s",     "'re", "'LL", "\u3000", "Ⅷ",          "\u200d"};
  const NaiveMatcher naive;
  std::mt19937 random(1);
  for (int round = 0; round < 20000; ++round) {
    const std::size_t pool = 2 + random() % (alphabet.size() - 1), offset = random() % alphabet.size();
    std::string text;
    for (std::size_t n = 1 + random() % 12; n > 0; --n) text += alphabet[(offset + random() % pool) % alphabet.size()];
    const std::u32string codes = code_points(text);
    std::vector<std::size_t> got, expected;
    for (std::size_t begin = 0; begin < text.size();) {
      const std::size_t end = piece_end(text, begin);
      REQUIRE(end > begin);
      got.push_back(code_points(std::string_view(text).substr(begin, end - begin)).size());
      begin = end;
    }
    for (std::size_t begin = 0; begin < codes.size();) {
      const std::size_t end = naive.match(codes, begin);
      REQUIRE(end > begin);
      expected.push_back(end - begin);
      begin = end;
    }
    CAPTURE(text);
    REQUIRE(got == expected);
  }
}

TEST_CASE("split: slices are cut where runs or the window grow too long") {
  const auto cut = [](std::string_view text, std::size_t window, std::size_t run) {
    const auto slices = guarded_slices(text, {window, run});
    return Pieces(slices.begin(), slices.end());
  };
  CHECK(cut("", 10, 3).empty());
  CHECK(cut("abc", 10, 3) == Pieces{"abc"});
  CHECK(cut("abcd", 10, 3) == Pieces{"abc", "d"});
  CHECK(cut("abcdefg", 10, 3) == Pieces{"abc", "def", "g"});
  CHECK(cut("x abcd", 10, 3) == Pieces{"x abc", "d"});
  CHECK(cut("ab    c", 10, 3) == Pieces{"ab   ", " c"});
  CHECK(cut("ab \n\t\x1c"
            "c",
            10, 3) == Pieces{"ab \n\t",
                             "\x1c"
                             "c"});  // U+001C is white space to Python
  CHECK(cut("a\u3000\u3000\u3000\u3000", 10, 3) == Pieces{"a\u3000\u3000\u3000", "\u3000"});
  CHECK(cut("🙂🙂🙂🙂", 10, 3) == Pieces{"🙂🙂🙂", "🙂"});  // characters, not bytes
  CHECK(cut("a b c d e", 4, 3) == Pieces{"a b ", "c d ", "e"});
  CHECK(cut("aaaaaa", 4, 3) == Pieces{"aaa", "a", "aa"});  // a window begins a new count
  CHECK(guarded_slices(std::string(25'000, 'a')).size() == 1);
  CHECK(guarded_slices(std::string(25'001, 'a')).size() == 2);
}

TEST_CASE("split: every kind of long run is walked in linear time") {
  // A quadratic scan of these would take minutes; there is nothing to measure.
  for (const char* unit : {"a", "A", " ", "\n", "'", "!", "1", "中", "\u0301", "ʰA",
                           "\u0301"
                           "A",
                           " \n", " A", "'s", "A'"}) {
    std::string text;
    while (text.size() < 1'000'000) text += unit;
    std::size_t total = 0;
    for (std::size_t begin = 0; begin < text.size();) {
      const std::size_t end = piece_end(text, begin);
      total += end - begin;
      begin = end;
    }
    CHECK(total == text.size());
  }
}
