// Masks, control tokens, copies, and the way to the end.
#include <algorithm>

#include "tests/catch.hpp"
#include "tests/grammar/fixture.hpp"

using namespace k3;
using namespace k3::grammar;
using E = Expression;

namespace {

std::shared_ptr<const Grammar> compiled(const Rules& rules, const Expression& root, const Limits& limits = {}) {
  auto grammar = compile(rules, root, limits);
  if (!grammar) FAIL(grammar.error().describe());
  return *grammar;
}

std::string error_of(const Rules& rules, const Expression& root, const Limits& limits = {}) {
  const auto grammar = compile(rules, root, limits);
  return grammar ? "" : grammar.error().message;
}

bool spells(const Matcher& from, std::string_view text) {
  Matcher matcher = from;
  return std::all_of(text.begin(), text.end(), [&](char c) { return matcher.accept(static_cast<unsigned char>(c)); });
}

}  // namespace

TEST_CASE("a mask holds exactly the tokens that are accepted, and those whose bytes are", "[grammar]") {
  const auto trie = test::small_trie();
  for (std::size_t i = 0; i < test::schemas().size(); ++i) {
    Matcher matcher(test::grammar_of(test::schemas()[i]), trie);
    std::uint64_t random = i;
    for (int step = 0; step < 12; ++step) {
      const auto span = matcher.allowed();
      const std::vector<std::uint64_t> mask(span.begin(), span.end());
      const auto towards = matcher.allowed_towards_end();
      const std::vector<std::uint64_t> nearer(towards.begin(), towards.end());
      for (TokenId id = 0; id < static_cast<TokenId>(test::vocabulary); ++id) {
        Matcher copy = matcher;
        const bool accepted = copy.accept(id);
        INFO(test::schemas()[i] << " step " << step << " id " << id);
        REQUIRE(test::is_set(mask, id) == accepted);
        REQUIRE(matcher.allows(id) == accepted);
        REQUIRE(accepted == (!trie->spelling(id).empty() && spells(matcher, trie->spelling(id))));
        REQUIRE(test::is_set(nearer, id) == (accepted && copy.shortest_finish() < matcher.shortest_finish()));
      }
      const auto ids = test::ids_of(mask);
      if (ids.empty()) break;
      random = random * 6364136223846793005ULL + 1442695040888963407ULL;
      REQUIRE(matcher.accept(ids[(random >> 33) % ids.size()]));
    }
  }
}

TEST_CASE("control tokens are symbols of their own, between bytes", "[grammar]") {
  Rules rules;
  const E root =
      E::sequence({E::token(test::control_a), E::text(), E::token(test::control_b), E::bytes("ok"), E::token(test::control_a)});
  Matcher matcher(compiled(rules, root), test::small_trie());
  REQUIRE(test::ids_of(matcher.allowed()) == std::vector<TokenId>{test::control_a});
  REQUIRE(matcher.shortest_finish() == 5);
  REQUIRE_FALSE(matcher.accept('o'));
  REQUIRE(matcher.accept(test::control_a));
  // Any bytes, valid UTF-8 or not, and the closing token.
  REQUIRE(test::ids_of(matcher.allowed()).size() == test::small_trie()->tokens().size() + 1);
  REQUIRE_FALSE(test::is_set(matcher.allowed(), test::control_a));
  REQUIRE(matcher.accept(0xff));
  REQUIRE(matcher.accept(test::control_b));
  REQUIRE(matcher.accept('o'));
  REQUIRE_FALSE(matcher.complete());
  REQUIRE(matcher.accept('k'));
  REQUIRE(matcher.accept(test::control_a));
  REQUIRE(matcher.complete());
  REQUIRE(matcher.shortest_finish() == 0);
  REQUIRE(test::ids_of(matcher.allowed()).empty());
  REQUIRE(test::ids_of(matcher.allowed_towards_end()).empty());
  for (const TokenId id : {-1, 1002, 1 << 30}) REQUIRE_FALSE(matcher.accept(id));
}

TEST_CASE("a copy goes its own way", "[grammar]") {
  Rules rules;
  Matcher first(compiled(rules, E::choice({E::bytes("ab"), E::bytes("ac")})), test::small_trie());
  REQUIRE(first.accept('a'));
  Matcher second = first;
  REQUIRE(second.accept('b'));
  REQUIRE(second.complete());
  REQUIRE_FALSE(first.complete());
  REQUIRE(first.accept('c'));
  REQUIRE(first.complete());
}

TEST_CASE("counts are kept exactly, far from their bounds and near them", "[grammar]") {
  Rules rules;
  const auto grammar = compiled(rules, E::sequence({E::repeat(E::bytes("ab"), 500, 600), E::bytes("c")}));
  Matcher matcher(grammar, test::small_trie());
  for (int i = 0; i < 600; ++i) {
    INFO(i);
    REQUIRE(matcher.shortest_finish() == static_cast<std::uint32_t>(std::max(0, 500 - i) * 2 + 1));
    REQUIRE(test::is_set(matcher.allowed(), 'c') == (i >= 500));
    REQUIRE(matcher.accept('a'));
    REQUIRE(matcher.accept('b'));
  }
  REQUIRE(test::ids_of(matcher.allowed()) == std::vector<TokenId>{'c'});
}

TEST_CASE("choices of counts within counts stay exact", "[grammar]") {
  Rules rules;
  const auto grammar = compiled(rules, E::repeat(E::sequence({E::repeat(E::bytes("a"), 2, 3), E::optional(E::bytes("b"))}), 2, 3));
  for (const char* good : {"aaaa", "aabaa", "aaaaaaaaa", "aaabaaabaaab", "aabaabaa"}) REQUIRE(test::matches(grammar, good));
  for (const char* bad : {"", "aa", "aaa", "aaaaaaaaaa", "aabb", "abaa", "aaba"}) REQUIRE_FALSE(test::matches(grammar, bad));
}

TEST_CASE("recursion ends where the depth is used up, never in a dead end", "[grammar]") {
  const auto grammar = test::grammar_of(R"({"type":"array","items":{"$ref":"#"}})");
  Matcher matcher(grammar, test::small_trie());
  int levels = 0;
  while (levels < 10000 && matcher.accept('[')) ++levels;
  REQUIRE(levels >= 60);
  REQUIRE(levels <= 1000);
  REQUIRE(matcher.shortest_finish() == static_cast<std::uint32_t>(levels));
  for (int i = 0; i < levels; ++i) REQUIRE(matcher.accept(']'));
  REQUIRE(matcher.complete());
}

TEST_CASE("any JSON is accepted, as deep as the parser reads by default", "[grammar]") {
  const auto grammar = test::grammar_of("{}");
  REQUIRE(test::matches(grammar, R"({"a":[1,-2.5e10,"x",null,{"b":{}}],"c":[[],[true,false]]})"));
  REQUIRE(test::matches(grammar, std::string(60, '[') + std::string(60, ']')));
  REQUIRE_FALSE(test::matches(grammar, R"({"a" :1})"));
  Rules rules;
  const E object = any_json_object(rules);
  const auto objects = compiled(rules, object);
  REQUIRE(test::matches(objects, R"({"a":[1]})"));
  REQUIRE_FALSE(test::matches(objects, "[]"));
}

TEST_CASE("grammars that cannot be run are refused", "[grammar]") {
  Rules rules;
  const RuleIndex self = rules.reserve();
  REQUIRE(error_of(rules, E::rule(self)).find("never end") != std::string::npos);
  REQUIRE(error_of(rules, E::rule(7)).find("no rule 7") != std::string::npos);
  rules.define(self, E::choice({E::sequence({E::optional(E::bytes("x")), E::rule(self), E::bytes("a")}), E::bytes("b")}));
  REQUIRE(error_of(rules, E::rule(self)).find("before anything is written") != std::string::npos);
  REQUIRE(error_of({}, E::repeat(E::optional(E::bytes("a")), 0, 5)).find("may be empty") != std::string::npos);
  REQUIRE(error_of({}, E::repeat(E::bytes("a"), 3, 2)).find("at least 3") != std::string::npos);
  Limits small;
  small.instructions = 100;
  REQUIRE(error_of({}, E::bytes(std::string(200, 'a')), small).find("instructions") != std::string::npos);
  E doubled;
  for (int i = 0; i < 200; ++i) doubled = E::sequence({doubled, doubled});
  REQUIRE(error_of({}, doubled).find("instructions") != std::string::npos);
  E nested = E::bytes("a");
  for (int i = 0; i < 2000; ++i) nested = E::sequence({nested});
  REQUIRE(error_of({}, nested).find("deep") != std::string::npos);
}

TEST_CASE("hostile and huge schemas are refused, or run, in bounded work", "[grammar]") {
  for (const char* pattern : {"(a{1,1000}){1,1000}", "((a{1,100}){1,100}){1,100}", "(a|b)*a(a|b){30}", "(a*)*b{100000}",
                              "(((((((a{9}){9}){9}){9}){9}){9}){9}){9}", "^(a{1,90}){1,90}$", "(^){1000000000}a"}) {
    const std::string refused = test::refusal(R"({"pattern":")" + std::string(pattern) + "\"}");
    INFO(pattern);
    REQUIRE(refused.starts_with("/pattern: pattern"));
  }
  REQUIRE(test::refusal(R"({"pattern":"^(a*)*(b|b?)+$"})").empty());
  REQUIRE(test::refusal(R"({"pattern":")" + std::string(5000, '(') + "\"}").starts_with("/pattern"));
  REQUIRE(test::refusal(R"({"maxLength":4000000000,"minLength":3999999999})").empty());
  REQUIRE(test::refusal(R"({"pattern":"^[a-z]*$","maxLength":100000000})").starts_with("/pattern: "));
  std::string deep, close;
  for (int i = 0; i < 250; ++i) {
    deep += R"({"items":)";
    close += "}";
  }
  REQUIRE(test::refusal(deep + "{}" + close).find("deep") != std::string::npos);
  std::string values, properties;
  for (int i = 0; i < 10000; ++i) values += (i > 0 ? ",\"value " : "\"value ") + std::to_string(i) + "\"";
  const auto listed = test::grammar_of(R"({"enum":[)" + values + "]}");
  REQUIRE(test::matches(listed, R"("value 9999")"));
  REQUIRE_FALSE(test::matches(listed, R"("value 10000")"));
  for (int i = 0; i < 5000; ++i) properties += (i > 0 ? ",\"p" : "\"p") + std::to_string(i) + R"(":{"type":"integer"})";
  const auto wide = test::grammar_of(R"({"properties":{)" + properties + "}}");
  REQUIRE(test::matches(wide, R"({"p0":1,"p17":2,"p4999":3})"));
  REQUIRE_FALSE(test::matches(wide, R"({"p17":2,"p16":3})"));
  // Each level mentions the next twice: that must not double.
  std::string nested = R"({"type":"integer"})";
  for (int i = 0; i < 60; ++i) nested = R"({"properties":{"a":)" + nested + R"(,"b":{"type":"null"}}})";
  REQUIRE(test::refusal(nested).empty());
}

TEST_CASE("the cache of states is renewed in the middle of answers without anyone noticing", "[grammar]") {
  // Ambiguous counts make many states of many places each, far more than the cache holds.
  Rules rules;
  const E inner = E::repeat(E::choice({E::bytes("a"), E::bytes("ab"), E::bytes("b")}), 1, 40);
  const auto grammar = compiled(rules, E::repeat(inner, 100, 200));
  Matcher matcher(grammar, test::small_trie());
  const Matcher start = matcher;
  for (int i = 0; i < 150; ++i) {
    REQUIRE(test::is_set(matcher.allowed(), 'a'));
    REQUIRE(test::is_set(matcher.allowed(), 'b'));
    REQUIRE_FALSE(test::is_set(matcher.allowed(), 'c'));
    REQUIRE(matcher.accept(i % 3 == 0 ? 'b' : 'a'));
    REQUIRE(matcher.complete() == (i + 1 >= 100));
  }
  REQUIRE(spells(start, "abab"));
}
