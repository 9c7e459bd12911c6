#include "tests/grammar/fixture.hpp"

#include "tests/catch.hpp"

namespace k3::grammar::test {

std::shared_ptr<const TokenTrie> small_trie() {
  static const auto trie = [] {
    std::vector<std::string> spellings(vocabulary);
    for (int byte = 0; byte < 256; ++byte) spellings[static_cast<std::size_t>(byte)] = std::string(1, static_cast<char>(byte));
    std::size_t next = 256;
    for (const char* text : {"\":",      "\",\"",
                             "{\"",      "\"}",
                             "]}",       "}}",
                             "[[",       "[]",
                             "{}",       ",\"",
                             "true",     "false",
                             "null",     "tru",
                             "12",       "00",
                             "99",       "-1",
                             "0.",       "ab",
                             "abc",      "name",
                             "\xc3\xa9", "\xe2\x82",
                             "\xac\"",   "\xf0\x9f\x98\x80",
                             "\\\"",     "\\u00",
                             "  ",       "a\"",
                             "a\",\"b",  "2024-",
                             "02-29",    "T00",
                             "e5",       "id\":",
                             "value",    "\"a\":",
                             "\"b\":1"}) {
      spellings[next++] = text;
    }
    // Common pairs, so that walks take steps of several bytes.
    for (const char a : {'a', 'b', '1', '"', ',', '{', '['}) {
      for (const char b : {'a', 'z', '0', '5', '"', ',', ':', '}', ']'}) spellings[next++] = std::string{a, b};
    }
    std::vector<std::string_view> views(spellings.begin(), spellings.end());
    return TokenTrie::of(views);
  }();
  return trie;
}

json::Value parsed(std::string_view text) {
  json::ParseOptions limits;
  limits.max_depth = 512;
  auto value = json::parse(text, limits);
  INFO(text);
  REQUIRE(value.has_value());
  return std::move(*value);
}

std::string refusal(std::string_view schema) {
  Rules rules;
  const auto root = from_json_schema(parsed(schema), rules);
  if (!root) return root.error().path + ": " + root.error().message;
  const auto grammar = compile(rules, *root);
  return grammar ? std::string() : grammar.error().describe();
}

std::shared_ptr<const Grammar> grammar_of(std::string_view schema) {
  Rules rules;
  const auto root = from_json_schema(parsed(schema), rules);
  INFO(schema);
  if (!root) FAIL(root.error().path << ": " << root.error().message);
  auto grammar = compile(rules, *root);
  if (!grammar) FAIL(grammar.error().describe());
  return *grammar;
}

std::vector<TokenId> ids_of(std::span<const std::uint64_t> mask) {
  std::vector<TokenId> ids;
  for (std::size_t word = 0; word < mask.size(); ++word) {
    for (std::uint64_t bits = mask[word]; bits != 0; bits &= bits - 1) {
      ids.push_back(static_cast<TokenId>(word * 64 + static_cast<std::size_t>(__builtin_ctzll(bits))));
    }
  }
  return ids;
}

bool matches(const std::shared_ptr<const Grammar>& grammar, std::string_view text) {
  Matcher matcher(grammar, small_trie());
  for (const char c : text) {
    if (!matcher.accept(static_cast<unsigned char>(c))) return false;
  }
  return matcher.complete();
}

std::optional<std::string> walk(const std::shared_ptr<const Grammar>& grammar, std::uint64_t seed, int patience) {
  std::mt19937_64 random(seed);
  Matcher matcher(grammar, small_trie());
  std::string text;
  for (int step = 0;; ++step) {
    const bool late = step >= patience;
    if (matcher.complete() && (late || random() % 4 == 0)) return text;
    const auto before = matcher.shortest_finish();
    const auto ids = ids_of(late ? matcher.allowed_towards_end() : matcher.allowed());
    if (ids.empty()) return matcher.complete() ? std::optional(text) : std::nullopt;
    const TokenId id = ids[random() % ids.size()];
    if (!matcher.accept(id)) return std::nullopt;
    if (late && matcher.shortest_finish() >= before) return std::nullopt;
    text += small_trie()->spelling(id);
  }
}

}  // namespace k3::grammar::test
