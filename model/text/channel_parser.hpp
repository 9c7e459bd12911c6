// Output ids → thinking, answer and tool calls: a pure state machine over ids. Structure is recognised by token id, never by
// text, so a marker the model merely spells out in its answer stays text, and no piece of a real marker can leak.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "model/text/tokenizer.hpp"

namespace k3::text {

// What one id added. Text comes in whole code points.
struct ReasoningDelta {
  std::string text;
};
struct ContentDelta {
  std::string text;
};
// First delta of a call carries id and name with empty arguments, later ones only arguments; concatenated they are one JSON object.
struct ToolCallBegin {
  std::size_t index;
  std::string id;
  std::string name;
};
struct ToolCallArguments {
  std::size_t index;
  std::string json;
};
struct ToolCallEnd {
  std::size_t index;
};
using Delta = std::variant<ReasoningDelta, ContentDelta, ToolCallBegin, ToolCallArguments, ToolCallEnd>;

struct ToolCall {
  std::string id, name, arguments;  // arguments: JSON text
};

// The whole message, as a non-streamed answer carries it. has_* tells "absent" from "empty".
struct ParsedMessage {
  std::string reasoning, content;
  bool has_reasoning = false, has_content = false;
  std::vector<ToolCall> tool_calls;  // complete calls only
};

class ChannelParser {
 public:
  // `thinking`: the prompt opened the think channel (else the response channel).
  // `first_call_index`: how many tool calls the conversation already holds; ids are `name_INDEX` counted from there.
  ChannelParser(const Tokenizer& tokenizer, bool thinking, std::size_t first_call_index = 0);

  // A copy goes its own way.
  ChannelParser(const ChannelParser& other);
  ChannelParser& operator=(const ChannelParser& other);
  ChannelParser(ChannelParser&&) noexcept;
  ChannelParser& operator=(ChannelParser&&) noexcept;
  ~ChannelParser();

  // Deltas of one id. After the message has ended every further id is ignored.
  std::vector<Delta> push(TokenId id);
  // The output ended (stop or length): flushes held-back text; a call cut short is dropped from message().
  std::vector<Delta> finish();

  bool ended() const;  // <|end_of_msg|>, [EOS] or the message closer has been seen
  bool in_reasoning() const;
  bool in_response() const;
  bool in_header() const;  // of a channel or a call, not yet whole
  const ParsedMessage& message() const;
  // The ids, counted from 0, whose text became the answer's (not thinking, not a call's) by the last push() or finish(); markers
  // are never among them. Ids before first_undecided() are not among those of any later one.
  std::span<const std::size_t> content_ids() const;
  std::size_t first_undecided() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace k3::text
