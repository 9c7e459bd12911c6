// Which call a tool message answers: order, name and number of the results of one conversation.
#pragma once

#include "model/text/chat_format.hpp"

namespace k3::text {

// A message in the order it is rendered in. `tool` and `number` belong to tool messages only.
struct Turn {
  const json::Value* message = nullptr;
  std::string_view tool{};
  std::size_t number = 0;  // from 1, counted since the last assistant message
  bool by_place = false;   // `tool` is a guess: that of the call which stands where this result does
};

// A run of consecutive tool messages takes the order of the last assistant's calls if every one of them names one by id; else it
// stays as it came. Views point into `messages`.
boost::system::result<std::vector<Turn>, RequestError> arrange_turns(const std::vector<json::Value>& messages);

// How many tool messages are answers to calls by their place alone. Zero where arrange_turns() fails.
std::size_t results_by_place(const std::vector<json::Value>& messages);

// The name of a call, nested in `function` or not; empty if there is none.
std::string_view call_name(const json::Value& call);
const json::Value* call_arguments(const json::Value& call);

// A member's text, empty when absent, null or no string.
std::string_view text_member(const json::Value& object, std::string_view key);

}  // namespace k3::text
