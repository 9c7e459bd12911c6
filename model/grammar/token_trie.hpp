// The spellings of all ordinary tokens, sorted so that one walk visits common beginnings once. Made once a tokenizer.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "model/text/tokenizer.hpp"

namespace k3::grammar {

class TokenTrie {
 public:
  // Control tokens are left out; they are symbols, not spellings.
  static std::shared_ptr<const TokenTrie> of(const text::Tokenizer& tokenizer);
  // [id]: what the token spells; an empty one is never allowed. For tests and measurements.
  static std::shared_ptr<const TokenTrie> of(std::span<const std::string_view> spellings);

  // In preorder: the children of a node follow it, and `skip` is the first node that is not below it.
  struct Node {
    std::uint32_t skip;
    std::uint32_t first_token;  // into tokens(); this node's own end where the next node's begin
    std::uint16_t depth;        // bytes so far, this one included
    std::uint8_t byte;
  };
  std::span<const Node> nodes() const {
    return {nodes_.data(), nodes_.size() - 1};
  }  // one more stands behind them, for first_token
  std::span<const text::TokenId> tokens() const { return {tokens_.data(), tokens_.size() - 1}; }  // here too one more stands behind
  std::string_view spelling(text::TokenId id) const;  // empty for a control token and for an id outside the vocabulary
  std::size_t vocabulary() const { return ends_.size(); }
  std::size_t longest() const { return longest_; }  // bytes

 private:
  explicit TokenTrie(std::span<const std::string_view> spellings);
  void build();

  std::string bytes_;                // all spellings in order of id
  std::vector<std::uint32_t> ends_;  // [id], into bytes_
  std::vector<Node> nodes_;
  std::vector<text::TokenId> tokens_;  // in order of nodes
  std::size_t longest_ = 0;
};

}  // namespace k3::grammar
