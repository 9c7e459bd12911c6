// A parsed message as JSON members, and small JSON values made by hand.
#pragma once

#include <string>

#include "model/text/channel_parser.hpp"
#include "model/text/json.hpp"

namespace k3::cli {

// The members reasoning_content, content (null where absent) and tool_calls, into an object that is open.
void write_message(json::Writer& writer, const text::ParsedMessage& message);

json::Value json_string(std::string text);
// {"role": role, "content": content}
json::Value chat_message(const std::string& role, std::string content);

}  // namespace k3::cli
