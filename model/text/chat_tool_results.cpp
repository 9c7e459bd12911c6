#include "model/text/chat_tool_results.hpp"

#include <algorithm>
#include <unordered_map>

namespace k3::text {
namespace {

std::string_view result_id(const json::Value& message) {
  const std::string_view id = text_member(message, "tool_call_id");
  return id.empty() ? text_member(message, "id") : id;
}

// The calls of the last assistant message.
struct Calls {
  const std::vector<json::Value>* calls = nullptr;
  std::unordered_map<std::string_view, std::size_t> place;  // by id; the first of equal ids

  void reset(const json::Value& assistant) {
    place.clear();
    const json::Value* list = assistant.find("tool_calls");
    calls = list ? &list->items : nullptr;
    for (std::size_t i = 0; calls && i < calls->size(); ++i) {
      const std::string_view id = text_member((*calls)[i], "id");
      if (!id.empty()) place.emplace(id, i);
    }
  }
  std::string_view name(std::size_t index) const { return calls && index < calls->size() ? call_name((*calls)[index]) : ""; }
};

struct Candidate {
  Turn turn;
  std::size_t original = 0;  // index in messages
  std::size_t call = 0;
};

// Sorts a run whose members all answer a known call, and names them; leaves any other run alone.
void match(std::vector<Candidate>& run, const Calls& calls) {
  for (Candidate& result : run) {
    const auto found = calls.place.find(result_id(*result.turn.message));
    if (found == calls.place.end()) return;
    result.call = found->second;
  }
  std::ranges::sort(run, {}, [](const Candidate& result) { return std::pair(result.call, result.original); });
  for (Candidate& result : run) result.turn.tool = calls.name(result.call);
}

std::string_view own_name(const json::Value& message) {
  const std::string_view tool = text_member(message, "tool");
  return tool.empty() ? text_member(message, "name") : tool;
}

bool is_tool(const json::Value& message) { return text_member(message, "role") == "tool"; }

}  // namespace

std::string_view text_member(const json::Value& object, std::string_view key) {
  const json::Value* member = object.find(key);
  return member && member->is_string() ? std::string_view(member->text) : std::string_view();
}

std::string_view call_name(const json::Value& call) {
  const json::Value* function = call.find("function");
  return text_member(function && function->is_object() ? *function : call, "name");
}

const json::Value* call_arguments(const json::Value& call) {
  const json::Value* function = call.find("function");
  return (function && function->is_object() ? *function : call).find("arguments");
}

boost::system::result<std::vector<Turn>, RequestError> arrange_turns(const std::vector<json::Value>& messages) {
  std::vector<Turn> turns;
  Calls calls;
  std::size_t count = 0;
  for (std::size_t i = 0; i < messages.size();) {
    if (!is_tool(messages[i])) {
      if (text_member(messages[i], "role") == "assistant") {
        calls.reset(messages[i]);
        count = 0;
      }
      turns.push_back({&messages[i++]});
      continue;
    }
    std::vector<Candidate> run;
    for (; i < messages.size() && is_tool(messages[i]); ++i) run.push_back({{&messages[i]}, i, 0});
    match(run, calls);
    for (Candidate& result : run) {
      Turn& turn = result.turn;
      turn.number = ++count;
      if (turn.tool.empty()) turn.tool = own_name(*turn.message);
      if (turn.tool.empty()) {
        turn.tool = calls.name(count - 1);
        turn.by_place = true;
      }
      if (turn.tool.empty()) {
        return RequestError{"no earlier tool call matches this tool message, and it names no tool",
                            "messages[" + std::to_string(result.original) + "].tool_call_id"};
      }
      turns.push_back(turn);
    }
  }
  return turns;
}

std::size_t results_by_place(const std::vector<json::Value>& messages) {
  const auto turns = arrange_turns(messages);
  return turns ? static_cast<std::size_t>(std::ranges::count_if(*turns, &Turn::by_place)) : 0;
}

}  // namespace k3::text
