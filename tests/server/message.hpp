// An answer of a chat as a client puts it together, with the rules that clients were seen to depend on checked on the way.
#pragma once

#include "tests/server/harness.hpp"

namespace k3::test {

struct Call {
  std::string id, name, arguments;
  bool operator==(const Call&) const = default;
};

struct Message {
  std::string reasoning, content, finish;
  std::vector<Call> calls;
  std::int64_t completion_tokens = 0, prompt_tokens = 0;
  bool operator==(const Message&) const = default;
};

// "" where it is missing.
std::string text_of(const json::Value& object, std::string_view key);
Message from_whole(const json::Value& answer);
// Chunk by chunk.
Message from_stream(const Reply& reply, bool with_usage);
// The answer to `body`, not streamed.
Message whole(World& world, const std::string& body);
// The same request, streamed and with usage.
std::string streaming(std::string body);

}  // namespace k3::test
