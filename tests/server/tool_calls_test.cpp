// Calls in an answer, and their results in the next request.
#include <set>

#include "tests/catch.hpp"
#include "tests/server/message.hpp"

using namespace k3;
using namespace k3::test;

namespace {

constexpr const char* kBegin = "<|close|>think<|sep|><|open|>response<|sep|>ok<|close|>response<|sep|><|open|>tools<|sep|>";
constexpr const char* kEnd = "<|close|>tools<|sep|><|close|>message<|sep|><|end_of_msg|>";

std::string call(const std::string& name, int number, const std::string& value) {
  return "<|open|>call tool=\"" + name + "\" index=\"" + std::to_string(number) +
         "\"<|sep|><|open|>argument key=\"a\" type=\"string\"" + "<|sep|>" + value + "<|close|>argument<|sep|><|close|>call<|sep|>";
}

// The calls of a message as those of the next request.
std::string as_history(const Message& message) {
  std::string calls, results;
  for (const Call& each : message.calls) {
    calls += std::string(calls.empty() ? "" : ",") + "{\"id\":\"" + each.id + R"(","type":"function","function":{"name":")" +
             each.name + R"(","arguments":)" + json::quoted(each.arguments) + "}}";
    results += R"(,{"role":"tool","content":"done","tool_call_id":")" + each.id + "\"}";
  }
  return R"({"role":"assistant","content":"ok","tool_calls":[)" + calls + "]}" + results;
}

std::string warnings(const Reply& reply) {
  REQUIRE(reply.status == 200);
  return reply.headers.contains("x-k3-warnings") ? reply.headers.at("x-k3-warnings") : "";
}

}  // namespace

TEST_CASE("F7: calls are counted from 0 in each answer, and their ids over the conversation") {
  World world;
  const std::string tools = R"("tools":[{"type":"function","function":{"name":"f"}},{"type":"function","function":{"name":"g"}}])";
  world.model->script(
      {.ids =
           world.tokenizer->encode(kBegin + call("f", 1, "x y") + call("g", 2, "z") + call("f", 3, "x y") + kEnd, true).value()});
  std::string messages = R"({"role":"user","content":"hi"})";
  std::set<std::string> ids;
  for (int turn = 0; turn < 3; ++turn) {
    const std::string body = R"({"messages":[)" + messages + "]," + tools + "}";
    const Message message = whole(world, body);
    // from_stream() checks each chunk: the index of a call is its place in this answer.
    const Reply stream = world.post("/v1/chat/completions", streaming(body));
    CHECK(from_stream(stream, true) == message);
    REQUIRE(message.calls.size() == 3);
    CHECK(message.finish == "tool_calls");
    for (std::size_t i = 0; i < 3; ++i) {
      CHECK(message.calls[i].id == (i == 1 ? "g_" : "f_") + std::to_string(3 * static_cast<std::size_t>(turn) + i));
      CHECK(ids.insert(message.calls[i].id).second);
    }
    CHECK(message.calls[0].arguments == R"({"a": "x y"})");
    messages += "," + as_history(message);
    CHECK(warnings(stream).empty());
  }
}

TEST_CASE("F7: a result's id decides whose it is; where it names no call, its place does, and that is said") {
  World world;
  world.model->script({.ids = plain_output("ok")});
  const auto ask = [&](const std::string& first, const std::string& second) {
    return R"({"messages":[{"role":"user","content":"hi"},{"role":"assistant","tool_calls":[)"
           R"({"id":"1","type":"function","function":{"name":"f","arguments":"{}"}},)"
           R"({"id":"2","type":"function","function":{"name":"g","arguments":"{}"}}]},{"role":"tool","content":"one",)" +
           first + R"(},{"role":"tool","content":"two",)" + second + "}]}";
  };
  const auto prompt = [&](const std::string& body) { return world.post("/apply-template", body).json().find("prompt")->text; };
  const std::string straight = ask(R"("tool_call_id":"1")", R"("tool_call_id":"2")");
  CHECK(warnings(world.post("/v1/chat/completions", straight)).empty());
  CHECK(prompt(straight).find("tool=\"f\" index=\"1\"<|sep|>one") != std::string::npos);
  const std::string crossed = ask(R"("tool_call_id":"2")", R"("tool_call_id":"1")");
  CHECK(warnings(world.post("/v1/chat/completions", crossed)).empty());
  CHECK(prompt(crossed).find("tool=\"f\" index=\"1\"<|sep|>two") != std::string::npos);
  // As where an agent has given the calls ids of its own, or cut the turn that they were made in.
  const std::string unknown = ask(R"("tool_call_id":"x")", R"("tool_call_id":"y")");
  CHECK(warnings(world.post("/v1/chat/completions", unknown)).find("2 tool result(s)") == 0);
  CHECK(prompt(unknown) == prompt(straight));
  const std::string named = ask(R"("tool_call_id":"x","name":"f")", R"("tool_call_id":"y","name":"g")");
  CHECK(warnings(world.post("/v1/chat/completions", named)).empty());
  CHECK(prompt(named) == prompt(straight));
  // More results than calls are nobody's.
  const Reply many = world.post(
      "/v1/chat/completions", R"({"messages":[{"role":"user","content":"hi"},{"role":"assistant","tool_calls":[{"id":"1",)"
                              R"("type":"function","function":{"name":"f","arguments":"{}"}}]},{"role":"tool","tool_call_id":"x",)"
                              R"("content":"a"},{"role":"tool","tool_call_id":"y","content":"b"}]})");
  CHECK(many.status == 400);
  CHECK(many.error_field("param") == "messages[3].tool_call_id");
}
