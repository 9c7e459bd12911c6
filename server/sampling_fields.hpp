// What a chat's body says of how tokens are drawn and where the answer ends. The server and `k3 generate --messages` read it here,
// so that both take the same values and refuse the others in the same words.
#pragma once

#include "model/generation/sampling.hpp"
#include "model/text/tokenizer.hpp"
#include "server/request_fields.hpp"

namespace k3::server {

constexpr double kHottest = 2;  // the highest temperature, as OpenAI's endpoints have it

// What is given replaces what stands in `sampling`.
void read_sampling(Fields& fields, generation::Sampling& sampling);
// Ids are those below `vocabulary`, each spelled in one way only: decimal, without leading zeros.
void read_logit_bias(Fields& fields, const Limits& limits, text::TokenId vocabulary, generation::Sampling& sampling);
void read_stops(Fields& fields, const Limits& limits, std::vector<std::string>& stops);
// Tokens of thinking after which the answer follows, by either name that others have given it; nullopt: no bound.
std::optional<std::size_t> read_thinking_budget(Fields& fields);
// The most tokens of the answer; the newer of its two names wins.
std::optional<std::size_t> read_max_tokens(Fields& fields);

}  // namespace k3::server
