// F2 as a client sees it: the deltas of a call's arguments, event by event, on calls that test_text has by the hundred.
#include "tests/catch.hpp"
#include "tests/json_prefix.hpp"
#include "tests/server/message.hpp"

using namespace k3;
using namespace k3::test;

namespace {

std::string argument(std::string_view key, std::string_view type, std::string_view value) {
  return "<|open|>argument key=\"" + std::string(key) + "\" type=\"" + std::string(type) + "\"<|sep|>" + std::string(value) +
         "<|close|>argument<|sep|>";
}

std::string call(std::string_view inside, std::string_view closer = "<|close|>call<|sep|>") {
  return "<|open|>call tool=\"f\" index=\"1\"<|sep|>" + std::string(inside) + std::string(closer);
}

struct Case {
  std::string calls;
  std::vector<std::string> arguments;
};

const std::vector<Case>& cases() {
  static const std::vector<Case> all{
      {call(""), {"{}"}},
      {call(argument("a", "string", "")), {R"({"a": ""})"}},
      {call(argument("a", "string", "say \"hi\"\n\\ end")), {R"({"a": "say \"hi\"\n\\ end"})"}},
      {call(argument("a", "string", "😀👩‍👩‍👧‍👦 汉字 ď")),
       {R"({"a": "😀👩‍👩‍👧‍👦 汉字 ď"})"}},
      {call(argument("a", "string", "{\"b\": [1]}")), {R"({"a": "{\"b\": [1]}"})"}},
      {call(argument("a", "string", "call tools argument response think")), {R"({"a": "call tools argument response think"})"}},
      {call(argument("a", "string", "data: x\n\nevent: y\r\n")), {R"({"a": "data: x\n\nevent: y\r\n"})"}},
      {call(argument("a", "number", "-1.50E+07")), {R"({"a": -1.50E+07})"}},
      {call(argument("a", "number", "18446744073709551616")), {R"({"a": 18446744073709551616})"}},
      {call(argument("a", "number", "NaN")), {R"({"a": "NaN"})"}},
      {call(argument("a", "boolean", "true") + argument("b", "null", "null")), {R"({"a": true, "b": null})"}},
      {call(argument("a", "array", "[1, \"two\", [3.0]]")), {R"({"a": [1, "two", [3.0]]})"}},
      {call(argument("a", "object", "{\"x\": {\"y\": \"\\ud83d\\ude00\"}}")), {R"({"a": {"x": {"y": "\ud83d\ude00"}}})"}},
      {call(argument("a", "object", "{\"x\": [1")), {R"({"a": "{\"x\": [1"})"}},
      {call(argument("two &quot;words&quot; &amp; ключ", "string", "x")), {R"({"two \"words\" & ключ": "x"})"}},
      {call("<|open|>json type=\"object\"<|sep|>{\"a\":1}<|close|>json<|sep|>"), {R"({"a":1})"}},
      {call(argument("a", "string", "x")) + call(argument("b", "number", "2")), {R"({"a": "x"})", R"({"b": 2})"}},
      {call("<|open|>argument key=\"a\" type=\"string\"<|sep|>x"), {R"({"a": "x"})"}},
      {call(argument("a", "string", "x"), ""), {R"({"a": "x"})"}},
      {call(argument("a", "string", "x") + "<|close|>argument<|sep|>", "<|close|>call<|sep|><|close|>call<|sep|>"),
       {R"({"a": "x"})"}},
      {call("noise" + argument("a", "number", " 7 ") + "more"), {R"({"a":  7 })"}},
  };
  return all;
}

// Every event's piece of a call's arguments, joined; each of them the beginning of a document.
std::vector<std::string> streamed_arguments(const Reply& reply) {
  std::vector<std::string> arguments;
  std::vector<JsonPrefix> scanners;
  for (const std::string& event : reply.events()) {
    if (event == "[DONE]") break;
    const json::Value chunk = json::parse(event).value();
    for (const json::Value& choice : chunk.find("choices")->items) {
      const json::Value* calls = choice.find("delta")->find("tool_calls");
      if (calls == nullptr) continue;
      const auto index = static_cast<std::size_t>(calls->items.at(0).find("index")->as_int().value());
      arguments.resize(std::max(arguments.size(), index + 1));
      scanners.resize(arguments.size());
      const std::string piece = text_of(*calls->items[0].find("function"), "arguments");
      arguments[index] += piece;
      INFO(arguments[index]);
      CHECK(scanners[index].push(piece));
      CHECK(json::parse(arguments[index] + scanners[index].completion()).has_value());
    }
  }
  for (const JsonPrefix& scanner : scanners) CHECK(scanner.complete());
  return arguments;
}

}  // namespace

TEST_CASE("F2: a client that reads the arguments event by event has the beginning of a JSON object at each") {
  World world;
  const std::string body =
      R"({"messages":[{"role":"user","content":"a"}],"tools":[{"type":"function","function":{"name":"f","parameters":{}}}]})";
  for (const Case& c : cases()) {
    INFO(c.calls);
    const std::string output = "hm<|close|>think<|sep|><|open|>response<|sep|><|close|>response<|sep|><|open|>tools<|sep|>" +
                               c.calls + "<|close|>tools<|sep|><|close|>message<|sep|><|end_of_msg|>";
    world.model->script({.ids = world.tokenizer->encode(output, true).value()});
    CHECK(streamed_arguments(world.post("/v1/chat/completions", streaming(body))) == c.arguments);
    const Message message = whole(world, body);
    REQUIRE(message.calls.size() == c.arguments.size());
    for (std::size_t i = 0; i < c.arguments.size(); ++i) CHECK(message.calls[i].arguments == c.arguments[i]);
    CHECK(message.content.empty());
    CHECK(message.finish == "tool_calls");
  }
}
