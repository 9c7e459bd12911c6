// From the body of a chat completion to the ids of its prompt.
#pragma once

#include "model/text/chat_format.hpp"
#include "server/body_context.hpp"
#include "server/request_fields.hpp"

namespace k3::server {

struct ChatPrompt {
  text::ChatRequest request;
  std::vector<text::Segment> segments;
  std::vector<text::TokenId> ids;
  std::size_t opener = 0;               // of `ids`, those at the end that open the answer's first channel
  std::size_t first_call = 0;           // tool calls already in the conversation
  std::vector<std::string> warnings{};  // ASCII; what was understood in a way the client may not have meant
};

boost::system::result<ChatPrompt, ApiError> chat_prompt(json::Value body, const BodyContext& context);

}  // namespace k3::server
