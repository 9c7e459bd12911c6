// What is said in a Responses request: its instructions and its items.
#pragma once

#include "server/translated_body.hpp"

namespace k3::server {

// Moves `input` of `body`, behind `instructions`, into the messages of `out`.
std::optional<ApiError> read_input(json::Value& body, const std::string& instructions, TranslatedBody& out);

}  // namespace k3::server
