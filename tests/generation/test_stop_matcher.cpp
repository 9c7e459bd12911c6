#include <algorithm>

#include "model/generation/stop_matcher.hpp"
#include "tests/catch.hpp"

using k3::generation::StopMatcher;

namespace {

// The definition, by search: the match that ends first, of those the one that begins first.
std::pair<std::string, bool> expected(const std::string& text, const std::vector<std::string>& stops) {
  std::size_t end = std::string::npos, begin = 0;
  for (const auto& stop : stops) {
    if (stop.empty()) continue;
    const std::size_t at = text.find(stop);
    if (at == std::string::npos) continue;
    if (at + stop.size() < end || (at + stop.size() == end && at < begin)) {
      end = at + stop.size();
      begin = at;
    }
  }
  if (end == std::string::npos) return {text, false};
  return {text.substr(0, begin), true};
}

std::string run(StopMatcher& matcher, const std::vector<std::string>& pieces) {
  std::string out;
  for (const auto& piece : pieces) out += matcher.push(piece);
  return out + matcher.flush();
}

}  // namespace

TEST_CASE("a stop string is found wherever the text is cut, and the text before it is let out") {
  // A small alphabet makes overlaps, borders and self-overlaps common.
  std::uint64_t state = 7;
  const auto draw = [&state](std::uint64_t n) {
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    return (state >> 33) % n;
  };
  const auto word = [&](std::size_t n) {
    std::string s;
    for (std::size_t i = 0; i < n; ++i) s += static_cast<char>('a' + draw(2));
    return s;
  };
  for (int round = 0; round < 3000; ++round) {
    const std::string text = word(draw(20));
    std::vector<std::string> stops;
    for (std::uint64_t i = 0, n = draw(4); i < n; ++i) stops.push_back(word(draw(7)));
    std::vector<std::string> pieces;
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t n = 1 + draw(4);
      pieces.push_back(text.substr(at, n));
      at += n;
    }
    StopMatcher matcher(stops);
    const auto [want, matched] = expected(text, stops);
    INFO(text);
    REQUIRE(run(matcher, pieces) == want);
    REQUIRE(matcher.matched() == matched);
    // Which one: the text goes on with it where the answer ends.
    REQUIRE(matcher.match().empty() == !matched);
    if (matched) REQUIRE(text.compare(want.size(), matcher.match().size(), matcher.match()) == 0);
  }
}

TEST_CASE("D7: only a true prefix of a stop string is held back") {
  StopMatcher matcher({"END", "Ex"});
  CHECK(matcher.push("abc") == "abc");
  CHECK(matcher.push("dE") == "d");
  CHECK(matcher.push("N").empty());
  CHECK(matcher.push("E") == "EN");
  CHECK(matcher.push("y") == "Ey");
  CHECK(matcher.push("E").empty());
  CHECK(matcher.flush() == "E");
  CHECK(matcher.push("ND") == "ND");  // a flush forgets: the E before it belonged to another text
  CHECK(matcher.push("fEx").substr(0) == "f");
  CHECK(matcher.matched());
  CHECK(matcher.push("more").empty());
  CHECK(matcher.flush().empty());
}

TEST_CASE("a stop string in its own overlap and in a code point") {
  StopMatcher twice({"aab"});
  CHECK(twice.push("aaab") == "a");
  CHECK(twice.matched());
  StopMatcher accents({"\xC3\xA9"});  // é; è shares its first byte
  CHECK(accents.push("\xC3\xA8") == "\xC3\xA8");
  CHECK(accents.push("x\xC3\xA9y") == "x");
}

TEST_CASE("no stop strings, or empty ones, hold nothing back") {
  StopMatcher none({}), empty({""});
  CHECK(none.push("abc") == "abc");
  CHECK(empty.push("abc") == "abc");
  CHECK_FALSE(empty.matched());
}
