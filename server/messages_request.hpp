// The Messages protocol: a request as a chat completion, an answer as its events.
#pragma once

#include "server/translated_body.hpp"

namespace k3::server {

// `counting`: no answer is wanted, so nothing need be said of its length.
Translation translate_messages(json::Value body, bool counting);
std::span<const FieldName> messages_names();

// `omit_thinking`: its blocks stay empty, and their signatures carry it, so that it comes back with the conversation.
ShapeMaker messages_shape(bool omit_thinking);

}  // namespace k3::server
