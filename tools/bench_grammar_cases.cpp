#include "tools/bench_grammar_cases.hpp"

#include <algorithm>
#include <string_view>
#include <unordered_set>

namespace k3::cli {
namespace {

// Syllables, so that words share beginnings as real ones do.
std::string word(BenchRandom& random, std::size_t syllables) {
  constexpr std::string_view starts[] = {"b", "c", "d", "f", "g",  "h",  "l",  "m",  "n", "p",
                                         "r", "s", "t", "v", "st", "tr", "ch", "th", ""};
  constexpr std::string_view ends[] = {"a", "e", "i", "o", "u", "an", "en", "er", "in", "on", "or", "at", "es", "ing", "al", "y"};
  std::string out;
  for (std::size_t i = 0; i < syllables; ++i) {
    // Low numbers are more frequent: the product of two draws.
    out += starts[random.below(std::size(starts)) * random.below(std::size(starts)) / std::size(starts)];
    out += ends[random.below(std::size(ends)) * random.below(std::size(ends)) / std::size(ends)];
  }
  return out;
}

std::string ideographs(BenchRandom& random) {
  std::string out;
  for (std::size_t i = 1 + random.below(4); i > 0; --i) {
    const std::size_t c = 0x4e00 + random.below(1000) * random.below(20);
    out += {static_cast<char>(0xe0 | (c >> 12)), static_cast<char>(0x80 | ((c >> 6) & 63)), static_cast<char>(0x80 | (c & 63))};
  }
  return out;
}

std::string punctuation(BenchRandom& random) {
  constexpr std::string_view marks = "\"{}[](),.:;'<>/\\=+-*_!?#$%&|~@^`\n\t ";
  std::string out;
  for (std::size_t i = 1 + random.below(4); i > 0; --i) out += marks[random.below(marks.size())];
  return out;
}

std::string spelling(BenchRandom& random) {
  const std::size_t kind = random.below(100);
  if (kind < 30) return ideographs(random);
  if (kind < 35) return punctuation(random);
  if (kind < 36) return std::to_string(random.below(1000));
  if (kind < 37) return std::string(1 + random.below(64), ' ');
  std::string out = word(random, 1 + random.below(3) + random.below(2));
  if (random.below(8) == 0) out[0] = static_cast<char>(out[0] >= 'a' && out[0] <= 'z' ? out[0] - 32 : out[0]);
  return kind < 75 ? " " + out : out;
}

std::string many_properties(std::size_t count) {
  std::string out = R"({"type":"object","additionalProperties":false,"properties":{)";
  for (std::size_t i = 0; i < count; ++i) {
    out += (i > 0 ? ",\"" : "\"") + std::string("field_") + std::to_string(i) + R"(":{"type":"integer"})";
  }
  return out + "}}";
}

std::string large_enum(std::size_t count) {
  BenchRandom random(3);
  std::string out = R"({"enum":[)";
  for (std::size_t i = 0; i < count; ++i) out += (i > 0 ? ",\"" : "\"") + word(random, 3) + " " + std::to_string(i) + "\"";
  return out + "]}";
}

}  // namespace

std::vector<std::string> bench_spellings() {
  BenchRandom random(1);
  std::vector<std::string> out;
  std::unordered_set<std::string> known;
  for (int byte = 0; byte < 256; ++byte) out.emplace_back(1, static_cast<char>(byte));
  known.insert(out.begin(), out.end());
  while (out.size() < bench_vocabulary - 256) {
    std::string next = spelling(random);
    if (known.insert(next).second) out.push_back(std::move(next));
  }
  out.resize(bench_vocabulary);
  return out;
}

const std::vector<GrammarCase>& grammar_cases() {
  static const std::vector<GrammarCase> cases{
      {"any value", "{}"},
      {"string", R"({"type":"string"})"},
      {"string of 50 to 100000", R"({"type":"string","minLength":50,"maxLength":100000})"},
      {"string of at most 500", R"({"type":"string","maxLength":500})"},
      {"array of short strings", R"({"type":"array","items":{"type":"string","maxLength":10},"maxItems":1000})"},
      {"person",
       R"({"type":"object","properties":{"name":{"type":"string","maxLength":80},"age":{"type":"integer","minimum":0,"maximum":150},
           "email":{"type":"string","format":"email"},"tags":{"type":"array","items":{"type":"string"},"maxItems":8},
           "born":{"type":"string","format":"date"}},
           "required":["name","age","email","tags","born"],"additionalProperties":false})"},
      {"tree", R"({"type":"object","properties":{"value":{"type":"number","minimum":0,"maximum":1},
           "children":{"type":"array","items":{"$ref":"#"}}},"required":["value","children"],"additionalProperties":false})"},
      {"pattern", R"({"type":"array","items":{"type":"string","pattern":"^[A-Z][a-z]+( [A-Za-z]+){0,20}$"}})"},
      {"pattern, searched", R"({"type":"string","pattern":"(foo|bar)[0-9]{3}"})"},
      {"1000 properties", many_properties(1000)},
      {"5000 properties", many_properties(5000)},
      {"enum of 10000", large_enum(10000)},
      {"other names", R"({"type":"object","properties":{"id":{"type":"integer"},"name":{"type":"string"}},
           "additionalProperties":{"anyOf":[{"type":"string","maxLength":20},
           {"type":"number","minimum":-1.5,"maximum":1000},{"type":"null"}]}})"},
  };
  return cases;
}

}  // namespace k3::cli
