// Streams whose events have names, as those of Messages and Responses.
#pragma once

#include "tests/catch.hpp"
#include "tests/server/message.hpp"

namespace k3::test {

struct NamedEvent {
  std::string name;
  json::Value data;
};

// Comments left out. Every chunk must be one event, and every event be of the type it is named after.
inline std::vector<NamedEvent> named_events(const Reply& reply) {
  std::vector<NamedEvent> events;
  for (const auto& chunk : reply.chunks) {
    INFO("chunk: " << chunk);
    REQUIRE(chunk.ends_with("\n\n"));
    REQUIRE(chunk.find("\n\n") == chunk.size() - 2);
    if (chunk.starts_with(":")) continue;
    const std::size_t line = chunk.find('\n');
    REQUIRE(chunk.starts_with("event: "));
    REQUIRE(chunk.substr(line + 1, 6) == "data: ");
    auto data = json::parse(std::string_view(chunk).substr(line + 7, chunk.size() - line - 9));
    REQUIRE(data.has_value());
    events.push_back({chunk.substr(7, line - 7), std::move(*data)});
    REQUIRE(text_of(events.back().data, "type") == events.back().name);
  }
  return events;
}

inline std::int64_t number_of(const json::Value& object, std::string_view key) {
  const json::Value* value = object.find(key);
  REQUIRE(value != nullptr);
  return value->as_int().value();
}

// A block of an answer, in whichever protocol.
struct Piece {
  std::string kind, text, id, name;
  bool operator==(const Piece&) const = default;
};
inline std::ostream& operator<<(std::ostream& out, const Piece& piece) {
  return out << piece.kind << "(" << piece.name << " " << piece.id << " " << piece.text << ")";
}

struct Told {
  std::vector<Piece> pieces;
  std::string id, reason, stop;  // why it ended, and by which stop string
  std::int64_t prompt = 0, output = 0;
  bool operator==(const Told&) const = default;
};

// Output ids of text in which control tokens are recognised.
inline std::vector<std::int32_t> output_of(std::string_view text) { return mini_tokenizer()->encode(text, true).value(); }

inline constexpr std::string_view kTwoCalls =
    "let me see<|close|>think<|sep|><|open|>response<|sep|>I add.<|close|>response<|sep|><|open|>tools<|sep|>"
    "<|open|>call tool=\"add\" index=\"1\"<|sep|><|open|>argument key=\"a\" type=\"number\"<|sep|>16<|close|>argument<|sep|>"
    "<|open|>argument key=\"b\" type=\"string\"<|sep|>x \"y\"<|close|>argument<|sep|><|close|>call<|sep|>"
    "<|open|>call tool=\"now\" index=\"2\"<|sep|><|close|>call<|sep|><|close|>tools<|sep|>"
    "<|close|>message<|sep|><|end_of_msg|>";

}  // namespace k3::test
