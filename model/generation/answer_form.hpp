// What a request demands of its answer's form: a grammar of all of it, and an end of its thinking. Part of a Job.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "model/grammar/grammar.hpp"
#include "model/grammar/token_trie.hpp"

namespace k3::generation {

struct ThinkingEnd {
  std::vector<text::TokenId> ids{};  // close the think channel and open the response channel
  std::vector<text::TokenId>
      markers{};  // any of them ends the thinking: a closer, or an opener where the model leaves the closer out
};
ThinkingEnd thinking_end(const text::Tokenizer& tokenizer);

struct AnswerForm {
  // Of the whole answer, from the channel that the prompt has opened to the message's end. Both null: any answer will do.
  std::shared_ptr<const grammar::Grammar> grammar{};
  std::shared_ptr<const grammar::TokenTrie> trie{};
  // Where the prompt has opened the thinking: how that is ended, which is done in the model's place when `thinking_budget` tokens
  // have been thought, or when somebody asks for it (Ticket::end_thinking). Absent: the answer does not begin with thinking.
  std::optional<ThinkingEnd> thinking{};
  std::optional<std::size_t> thinking_budget{};
};

}  // namespace k3::generation
