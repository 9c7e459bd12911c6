// A chat request in a file, as `generate --messages` takes it: the body a client would send to the server, or only its messages.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "model/generation/sampling.hpp"
#include "model/text/chat_format.hpp"
#include "model/text/tokenizer.hpp"

namespace k3::cli {

struct RequestFile {
  text::ChatRequest chat;
  generation::Sampling sampling;
  std::optional<std::size_t> max_tokens;
  std::optional<std::size_t> thinking_budget{};  // tokens; nullopt: no bound
  std::vector<std::string> stops;
  std::vector<std::string> warnings;  // what it says and does not get
};

// The same fields in the same ranges as the server's. What is about the transport, such as `stream`, means nothing here.
Result<RequestFile> read_request_file(const std::string& path, const text::Tokenizer& tokenizer);

}  // namespace k3::cli
