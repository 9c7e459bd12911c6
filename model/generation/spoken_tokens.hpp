// Which tokens the visible text is made of, one after the other, so that log-probabilities can be shown beside it: what is
// thinking, a marker or behind a stop string has none, and the bytes of all that are taken are the bytes of the text.
#pragma once

#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "model/text/tokenizer.hpp"
#include "model/ticket.hpp"

namespace k3::generation {

struct SpokenToken {
  text::TokenId id = 0;
  std::string
      bytes;  // as the model meant them: part of a code point, too; the last token before a stop string is cut with the text
  std::shared_ptr<const TokenLogprobs> logprobs;
};

class SpokenTokens {
 public:
  explicit SpokenTokens(const text::Tokenizer& tokenizer) : tokenizer_(tokenizer) {}

  // The next id of the output, counted from 0.
  void arrived(text::TokenId id, std::shared_ptr<const TokenLogprobs> logprobs) {
    arrived_.push_back({id, {}, std::move(logprobs)});
  }
  // The id with this number has become text of the answer. Numbers rise.
  void said(std::size_t at);
  // What came before this number and was not said never will be.
  void forget_before(std::size_t at);
  // So much more of the text is out, as whole code points. U+FFFD may stand for bytes that are none.
  void shown(std::string_view text);

  // Those whose text is out as a whole.
  std::vector<SpokenToken> take();
  // Nothing more will come out: those, and the one of which a part is out, cut to that part.
  std::vector<SpokenToken> take_last();

 private:
  const text::Tokenizer& tokenizer_;
  std::deque<SpokenToken> arrived_;  // not decided yet
  std::size_t first_ = 0;            // number of the first of them
  std::deque<SpokenToken> said_;     // not taken yet
  std::string unshown_;              // what all that was said is made of, from where the text has come to
  std::size_t shown_ = 0;            // bytes of theirs that are out, as said
};

}  // namespace k3::generation
