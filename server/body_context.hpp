// What a body is read against. Copies, or what never changes: a large body is read on another thread.
#pragma once

#include <stop_token>

#include "model/text/tokenizer.hpp"
#include "model/ticket.hpp"
#include "server/server.hpp"

namespace k3::server {

struct BodyContext {
  const ServerOptions& options;  // outlives the context
  std::shared_ptr<const text::Tokenizer> tokenizer;
  std::shared_ptr<const grammar::TokenTrie> trie{};  // of the tokenizer; where none is, no answer can be held to a form
  ModelInfo model;
  std::shared_ptr<const Model> asked;  // the model itself, for what it knows of a prompt
  // Seconds that a token of a prompt and one of an answer have taken of late; nullopt: nothing was measured yet.
  std::optional<double> prompt_pace{}, token_pace{};
  std::uint64_t seed = 0;   // for a request that names none
  bool at_leisure = false;  // on the worker, where nobody else waits
  std::stop_token stop{};   // nobody waits for the result any more
};

}  // namespace k3::server
