// A small vocabulary, and documents walked through a schema's grammar.
#pragma once

#include <memory>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "model/grammar/grammar.hpp"
#include "model/grammar/json_schema.hpp"
#include "model/grammar/matcher.hpp"
#include "tests/grammar/validator.hpp"

namespace k3::grammar::test {

// The 256 bytes as ids 0 to 255, then spellings that straddle what grammars tell apart; then control tokens without a spelling.
std::shared_ptr<const TokenTrie> small_trie();
constexpr TokenId control_a = 1000, control_b = 1001;
constexpr std::size_t vocabulary = 1002;

json::Value parsed(std::string_view text);
// Of a schema; fails the test if it is refused.
std::shared_ptr<const Grammar> grammar_of(std::string_view schema);
// "path: message", or "" if the schema is accepted and its grammar compiles.
std::string refusal(std::string_view schema);

inline bool is_set(std::span<const std::uint64_t> mask, TokenId id) {
  return ((mask[static_cast<std::size_t>(id) / 64] >> (id % 64)) & 1) != 0;
}
std::vector<TokenId> ids_of(std::span<const std::uint64_t> mask);

// Byte by byte, all of it.
bool matches(const std::shared_ptr<const Grammar>& grammar, std::string_view text);

// Tokens at random; after `patience` of them only such as lead to the end. Nothing if the walk is stuck, which is a bug.
std::optional<std::string> walk(const std::shared_ptr<const Grammar>& grammar, std::uint64_t seed, int patience);

// Of tests/data/schemas.json, group after group: schemas of all kinds.
const std::vector<std::string>& schemas();

// Of tests/data/refused_schemas.json: what is not supported, or nonsense.
struct Refused {
  std::string keyword, pointer, schema;
};
const std::vector<Refused>& refused_schemas();

}  // namespace k3::grammar::test
