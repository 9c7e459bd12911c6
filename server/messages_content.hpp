// What is said in a Messages request: its system text and its turns, block by block.
#pragma once

#include "server/translated_body.hpp"

namespace k3::server {

// Moves `system` and `messages` of `body` into the messages of `out`.
std::optional<ApiError> read_conversation(json::Value& body, TranslatedBody& out);

}  // namespace k3::server
