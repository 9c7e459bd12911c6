// The Responses protocol without its memory: a request as a chat completion, an answer as its items and events.
#pragma once

#include "server/translated_body.hpp"

namespace k3::server {

Translation translate_response(json::Value body);
std::span<const FieldName> responses_names();

// What an answer repeats of its request. Made of the body before that is translated.
struct ResponseEcho {
  json::Value fields;              // an object: what clients find in the response as they sent it, or its default
  bool encrypted_content = false;  // thinking is wanted in the one field of it that every client sends back
};
ResponseEcho response_echo(const json::Value& body);

ShapeMaker responses_shape(ResponseEcho echo);

}  // namespace k3::server
