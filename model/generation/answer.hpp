// The ids of one answer become what a client sees: channels parsed, stop strings applied, the finish reason decided. Shared by the
// server and the command line, so that they cannot differ.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "model/generation/spoken_tokens.hpp"
#include "model/text/channel_parser.hpp"
#include "model/ticket.hpp"

namespace k3::generation {

// What was still open when an answer ran out of tokens. In `thinking` there is no answer yet.
enum class CutIn : std::uint8_t { nowhere, thinking, response, call };

struct AnswerOptions {
  bool plain = false;    // text completion: no channels, control tokens are dropped, everything is content
  bool thinking = true;  // the prompt opened the think channel
  std::vector<std::string>
      stops;  // matched in the response channel's text only: a match in thinking would cut the answer off unseen
  std::size_t first_call_index = 0;  // tool calls already in the conversation
  bool logprobs = false;             // the ids come with log-probabilities, which are to be shown with the text
};

class Answer {
 public:
  Answer(const text::Tokenizer& tokenizer, AnswerOptions options);

  // Deltas of one more id. Text that might be the start of a stop string is held back until it is decided.
  std::vector<text::Delta> push(text::TokenId id, std::shared_ptr<const TokenLogprobs> logprobs = nullptr);
  // The model has ended by itself (`reason` from Finished), or by a stop string (then `reason` is ignored). Flushes.
  std::vector<text::Delta> finish(FinishReason reason);

  // With AnswerOptions::logprobs: the tokens of the content whose text is out since this was last asked. After finish() also the
  // one that a stop string has cut.
  std::vector<SpokenToken> spoken();

  bool stopped() const;                    // a stop string has completed: the text before it is out, the job should be cancelled
  std::string_view stop_string() const;    // that one; empty: none has. Lives as long as the answer
  std::string_view finish_reason() const;  // "stop", "length" or "tool_calls"; valid after finish()
  CutIn cut_in() const;                    // `nowhere` unless the reason is "length"; valid after finish()
  const text::ParsedMessage& message() const;  // with stop strings applied; valid after finish()
  std::size_t output_tokens() const;
  std::size_t reasoning_tokens() const;  // of them, those that were thought: without the markers that end the thinking
  bool thinking() const;                 // the think channel is open

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace k3::generation
