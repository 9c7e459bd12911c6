// What a body is read against. Copies, or what never changes: a large body is read on another thread.
#pragma once

#include <stop_token>

#include "model/text/tokenizer.hpp"
#include "model/ticket.hpp"
#include "server/pace.hpp"
#include "server/server.hpp"

namespace k3::server {

struct BodyContext {
  const ServerOptions& options;  // outlives the context
  std::shared_ptr<const text::Tokenizer> tokenizer;
  std::shared_ptr<const grammar::TokenTrie> trie{};  // of the tokenizer; where none is, no answer can be held to a form
  ModelInfo model;
  std::shared_ptr<const Model> asked;  // the model itself, for what it knows of a prompt
  PromptPace prompt_pace{};            // of late
  std::optional<double> token_pace{};  // seconds of an answer's token of late; nullopt: nothing was measured yet
  std::uint64_t seed = 0;              // for a request that names none
  bool at_leisure = false;             // on the worker, where nobody else waits
  std::stop_token stop{};              // nobody waits for the result any more
};

}  // namespace k3::server
