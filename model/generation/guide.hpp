// Keeps one answer in the form that its request demands: says which tokens may come next, and which must.
#pragma once

#include <deque>
#include <optional>
#include <span>
#include <string>

#include "model/generation/answer_form.hpp"
#include "model/grammar/matcher.hpp"

namespace k3::generation {

class Guide {
 public:
  explicit Guide(const AnswerForm& form);

  // Closes the thinking, if that is still going on: the next tokens are those that do it, once the code point that was begun is
  // whole (which takes the form's trie to know).
  void end_thinking() { enough_ = true; }
  // The token that comes next whatever the model says; nullopt: the model may choose.
  std::optional<text::TokenId> forced();
  // [vocabulary] one bit an id, of those that the model may choose from; empty: all. `left`: how many more tokens the answer may
  // have; when they are few, only tokens are left in that bring the answer to its end, so that what began as JSON ends as JSON.
  std::span<const std::uint64_t> allowed(std::size_t left);
  // The token that was taken. False: it is not allowed, which is a programmer's error.
  bool accept(text::TokenId id);

 private:
  bool over() const;
  void think(text::TokenId id);

  std::optional<grammar::Matcher> matcher_;
  const AnswerForm form_;
  bool thinking_;
  bool enough_ = false;      // the thinking is to be closed
  std::size_t thought_ = 0;  // tokens
  std::size_t late_ = 0;     // of them, those since it was to be closed
  std::string begun_;        // bytes of what was thought that begin a code point and do not end it
  std::deque<text::TokenId> forced_;
};

}  // namespace k3::generation
