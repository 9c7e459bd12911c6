// Any JSON as a schema: refused with a place, or compiled; then whatever is walked through it is a JSON document that its own
// grammar accepts byte by byte, every mask agrees with what is accepted, and each step towards the end is one.
#include "model/grammar/grammar.hpp"

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <random>

#include "model/grammar/json_schema.hpp"
#include "model/grammar/matcher.hpp"
#include "tests/grammar/validator.hpp"

using namespace k3;
using namespace k3::grammar;

namespace {

std::shared_ptr<const TokenTrie> trie() {
  static const auto made = [] {
    std::vector<std::string> spellings;
    for (int byte = 0; byte < 256; ++byte) spellings.emplace_back(1, static_cast<char>(byte));
    for (const char* text :
         {"\":", "\",\"", "{\"", "\"}", "]}", "[[", "true", "null", "12", "ab", "\xc3\xa9", "\xe2\x82", "\\\"", "\"a\":"}) {
      spellings.emplace_back(text);
    }
    const std::vector<std::string_view> views(spellings.begin(), spellings.end());
    return TokenTrie::of(views);
  }();
  return made;
}

TokenId chosen(std::span<const std::uint64_t> mask, std::mt19937_64& random) {
  std::vector<TokenId> ids;
  for (std::size_t i = 0; i < mask.size() * 64; ++i) {
    if (((mask[i / 64] >> (i % 64)) & 1) != 0) ids.push_back(static_cast<TokenId>(i));
  }
  return ids.empty() ? -1 : ids[random() % ids.size()];
}

std::string walk(const std::shared_ptr<const Grammar>& grammar, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  Matcher matcher(grammar, trie()), bytes = matcher;
  std::string text;
  constexpr int patience = 40, longest = 5000;
  for (int step = 0; step < longest; ++step) {
    if (matcher.complete() && step >= patience) break;
    const std::uint32_t before = matcher.shortest_finish();
    const TokenId id = chosen(step < patience ? matcher.allowed() : matcher.allowed_towards_end(), random);
    if (id < 0) {
      if (!matcher.complete()) std::abort();
      break;
    }
    if (!matcher.accept(id)) std::abort();
    if (step >= patience && matcher.shortest_finish() >= before) std::abort();
    for (const char c : trie()->spelling(id)) {
      if (!bytes.accept(static_cast<unsigned char>(c))) std::abort();
      text += c;
    }
    if (bytes.complete() != matcher.complete()) std::abort();
  }
  return matcher.complete() ? text : std::string();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto schema = json::parse(std::string_view(reinterpret_cast<const char*>(data), size));
  if (!schema) return 0;
  SchemaLimits limits;
  limits.nodes = 500;
  limits.states = 500;
  limits.pattern_size = 500;
  Rules rules;
  const auto root = from_json_schema(*schema, rules, limits);
  if (!root) return 0;
  Limits program;
  program.instructions = 100'000;
  const auto grammar = compile(rules, *root, program);
  // What can be written has an end, and nothing that a schema makes calls itself on its left.
  if (!grammar) {
    if (grammar.error().message.find("before anything") != std::string::npos) std::abort();
    return 0;
  }
  for (std::uint64_t seed = 0; seed < 2; ++seed) {
    const std::string document = walk(*grammar, seed);
    if (document.empty()) continue;  // cut off
    json::ParseOptions deep;
    deep.max_depth = 1000;
    const auto value = json::parse(document, deep);
    if (!value) std::abort();
    if (!test::valid(*value, *schema, *schema)) std::abort();
  }
  return 0;
}
