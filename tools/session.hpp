// What `generate` and `chat` begin with: the tokenizer and the loaded model, and a request made into a job.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "model/actor.hpp"
#include "model/text/chat_format.hpp"
#include "model/text/tokenizer.hpp"
#include "tools/common_flags.hpp"
#include "tools/thinking_flags.hpp"
#include "tools/turn.hpp"

namespace k3::cli {

struct Session {
  std::unique_ptr<text::Tokenizer> tokenizer;
  std::unique_ptr<Actor> model;
};

// Loads both; how far it is shows on stderr where that is a terminal.
Result<Session> open_session(const EngineFlags& flags);
// For progress of bytes, after two seconds: "loading 3.2 of 112.9 GB, 40 s left" on stderr; on a terminal one line that changes,
// else a line each tenth.
std::function<void(std::uint64_t, std::uint64_t)> show_progress(std::string what);

// Of loading a model, and of keeping its rounded weights.
void show_load_progress(ModelOptions& options);

// Think as the flag says; an empty flag leaves the request as it is.
void apply_think(const ThinkFlag& flag, text::ChatRequest& request);

Result<std::vector<text::TokenId>> prompt_of(const text::Tokenizer& tokenizer, const text::ChatRequest& request);
// What the request demands of the answer's form. `trie`: the tokenizer's, where there is one already. Errors: a schema that cannot
// be kept to.
Result<generation::AnswerForm> form_of(const text::Tokenizer& tokenizer, const text::ChatRequest& request,
                                       std::shared_ptr<const grammar::TokenTrie> trie = {});
Job make_job(const text::Tokenizer& tokenizer, std::vector<text::TokenId> prompt, const generation::Sampling& sampling,
             std::size_t max_tokens);
// On stderr, where an answer of a chat was cut off: that it was, and what helps.
void say_if_cut(const generation::Answer& answer);
// How many tool calls the conversation already holds: ids of new ones count on from there.
std::size_t calls_in(const text::ChatRequest& request);

}  // namespace k3::cli
