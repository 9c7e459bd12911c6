// Where one running answer stands in its grammar, which tokens may come next, and how far it is from its end.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "model/grammar/grammar.hpp"
#include "model/grammar/token_trie.hpp"

namespace k3::grammar {

class StateCache;

// A copy is cheap (three pointers) and goes its own way from there, for a draft that may be taken back. It shares what was worked
// out so far with the original, so a matcher and its copies belong to one thread at a time.
class Matcher {
 public:
  Matcher(std::shared_ptr<const Grammar> grammar, std::shared_ptr<const TokenTrie> trie);

  // [vocabulary] one bit an id, the lowest bit of the first word for id 0; ids outside the vocabulary are clear. Valid until the
  // next call of a function that is not const, of this matcher or a copy. None is set exactly when the answer is complete and
  // nothing may follow, provided that the vocabulary has each single byte.
  std::span<const std::uint64_t> allowed();
  bool allows(TokenId id);
  // False, and unchanged, if the token is not allowed.
  bool accept(TokenId id);
  // The answer may end here. It may also go on, if allowed() has a bit.
  bool complete() const;

  // The least number of bytes and control tokens to a complete answer, hence an upper bound of the tokens needed; 0 if complete().
  std::uint32_t shortest_finish() const;
  // Of allowed(), the tokens after which shortest_finish() is smaller than now; lifetime as allowed(). Taking only such tokens ends
  // any answer within shortest_finish() tokens. Empty if complete().
  std::span<const std::uint64_t> allowed_towards_end();

 private:
  void renew_if_full();
  std::span<const std::uint64_t> mask(bool towards_end);
  std::uint32_t after(TokenId id);

  std::shared_ptr<const Grammar> grammar_;
  std::shared_ptr<const TokenTrie> trie_;
  std::shared_ptr<StateCache> cache_;
  std::uint32_t state_ = 0;
};

}  // namespace k3::grammar
