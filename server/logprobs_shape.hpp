// Log-probabilities in OpenAI's two forms. Pure functions of their arguments.
#pragma once

#include <span>

#include "model/generation/spoken_tokens.hpp"
#include "model/text/json.hpp"

namespace k3::server {

using Spoken = std::span<const generation::SpokenToken>;

// {"content":[...]} for chats.
void write_chat_logprobs(json::Writer& writer, const text::Tokenizer& tokenizer, Spoken tokens);
// {"tokens":[...], ...} for text completions, with the bytes beside them, which OpenAI leaves out. `offset`: characters of text
// before these tokens; moves on.
void write_text_logprobs(json::Writer& writer, const text::Tokenizer& tokenizer, Spoken tokens, std::size_t& offset);

}  // namespace k3::server
