// What may be written: expressions over a mixed alphabet of bytes and control tokens, and the rules by which they may call
// themselves.
#pragma once

#include <bitset>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "model/text/tokenizer.hpp"

namespace k3::grammar {

using text::TokenId;

using ByteSet = std::bitset<256>;
// All bytes from `first` to `last`, both included.
ByteSet byte_range(unsigned char first, unsigned char last);

using RuleIndex = std::uint32_t;

constexpr std::uint32_t unbounded = std::numeric_limits<std::uint32_t>::max();

// Immutable and shared: a copy is a pointer. Ordinary tokens spell bytes, wherever they are cut; a control token is one symbol of
// its own.
class Expression {
 public:
  enum class Kind : std::uint8_t { bytes, byte_class, token, sequence, choice, repeat, rule };

  Expression();  // the empty text
  static Expression bytes(std::string_view text);
  static Expression byte_class(const ByteSet& set);  // one byte of the set; an empty set matches nothing
  static Expression token(TokenId id);               // a control token; ordinary tokens are spelled with bytes
  static Expression sequence(std::vector<Expression> parts);
  static Expression choice(std::vector<Expression> options);  // of none: matches nothing
  // `body` at least `min` and at most `max` times (`unbounded`: any number). Counts cost no states, however large. Where a count
  // above 1 is set, the body must not match the empty text; compile() refuses that.
  static Expression repeat(Expression body, std::uint32_t min, std::uint32_t max);
  static Expression optional(Expression body) { return repeat(std::move(body), 0, 1); }
  static Expression rule(RuleIndex index);  // what Rules says under that index; may be recursive, but not on its left
  static Expression text();                 // any ordinary tokens, also none; the bytes need not be UTF-8

  Kind kind() const;
  const std::string& literal() const;            // of bytes
  const ByteSet& set() const;                    // of byte_class
  TokenId id() const;                            // of token
  RuleIndex index() const;                       // of rule
  const std::vector<Expression>& parts() const;  // of sequence and choice; of repeat its body alone
  std::uint32_t min() const;                     // of repeat
  std::uint32_t max() const;                     // of repeat

 private:
  struct Node;
  explicit Expression(std::shared_ptr<const Node> node);
  std::shared_ptr<const Node> node_;
};

// The rules an answer's expressions refer to. One set serves a whole answer: everything that makes expressions (a tool's schema,
// say) adds its rules to it, so that indices never need to be renumbered.
class Rules {
 public:
  RuleIndex add(Expression body);
  // An index to refer to before its body is known. A rule never defined matches nothing.
  RuleIndex reserve();
  void define(RuleIndex index, Expression body);

  std::size_t size() const { return bodies_.size(); }
  const Expression& body(RuleIndex index) const { return bodies_[index]; }

 private:
  std::vector<Expression> bodies_;
};

}  // namespace k3::grammar
