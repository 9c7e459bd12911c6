#include "tests/server/message.hpp"

#include "tests/catch.hpp"

namespace k3::test {

std::string text_of(const json::Value& object, std::string_view key) {
  const json::Value* value = object.find(key);
  return value == nullptr ? std::string() : value->text;
}

Message from_whole(const json::Value& answer) {
  Message result;
  const auto& choice = answer.find("choices")->items.at(0);
  const auto& message = *choice.find("message");
  CHECK(text_of(message, "role") == "assistant");
  result.reasoning = text_of(message, "reasoning_content");
  result.content = text_of(message, "content");
  result.finish = text_of(choice, "finish_reason");
  if (const json::Value* calls = message.find("tool_calls")) {
    for (const auto& call : calls->items) {
      CHECK(text_of(call, "type") == "function");
      result.calls.push_back(
          {text_of(call, "id"), text_of(*call.find("function"), "name"), text_of(*call.find("function"), "arguments")});
    }
  }
  const auto& usage = *answer.find("usage");
  result.completion_tokens = usage.find("completion_tokens")->as_int().value();
  result.prompt_tokens = usage.find("prompt_tokens")->as_int().value();
  CHECK(usage.find("total_tokens")->as_int().value() == result.completion_tokens + result.prompt_tokens);
  return result;
}

namespace {

void take_call(Message& result, const json::Value& call) {
  const auto index = static_cast<std::size_t>(call.find("index")->as_int().value());
  const auto& function = *call.find("function");
  if (index == result.calls.size()) {
    // The first delta of a call names everything and holds no argument yet, later ones hold nothing else.
    CHECK(text_of(call, "type") == "function");
    CHECK(!text_of(call, "id").empty());
    CHECK(text_of(function, "arguments").empty());
    result.calls.push_back({text_of(call, "id"), text_of(function, "name"), ""});
    return;
  }
  REQUIRE(index + 1 == result.calls.size());
  CHECK(call.members.size() == 2);
  CHECK(function.members.size() == 1);
  result.calls[index].arguments += text_of(function, "arguments");
}

}  // namespace

// Checks the rules that clients were seen to depend on, chunk by chunk, and puts the message together.
Message from_stream(const Reply& reply, bool with_usage) {
  CHECK(reply.status == 200);
  CHECK(reply.complete);
  CHECK(reply.headers.at("content-type") == "text/event-stream");
  CHECK(reply.headers.at("cache-control") == "no-cache, no-transform");
  CHECK(reply.headers.at("x-accel-buffering") == "no");
  CHECK(reply.chunks.at(0).starts_with(":"));
  auto events = reply.events();
  REQUIRE(events.size() >= 3);
  REQUIRE(events.back() == "[DONE]");
  events.pop_back();
  Message result;
  std::string id;
  for (std::size_t i = 0; i < events.size(); ++i) {
    INFO(events[i]);
    const auto chunk = json::parse(events[i]).value();
    CHECK(text_of(chunk, "object") == "chat.completion.chunk");
    CHECK(text_of(chunk, "model") == "scripted");
    CHECK(text_of(chunk, "system_fingerprint") == "fp-test");
    CHECK(text_of(chunk, "id").starts_with("chatcmpl-"));
    CHECK((i == 0 || text_of(chunk, "id") == id));
    id = text_of(chunk, "id");
    const json::Value* choices = chunk.find("choices");
    REQUIRE(choices != nullptr);
    if (with_usage && i + 1 == events.size()) {
      CHECK(choices->items.empty());
      result.completion_tokens = chunk.find("usage")->find("completion_tokens")->as_int().value();
      result.prompt_tokens = chunk.find("usage")->find("prompt_tokens")->as_int().value();
      continue;
    }
    REQUIRE(choices->items.size() == 1);
    CHECK(chunk.find("usage") == nullptr);
    const auto& choice = choices->items[0];
    const auto& delta = *choice.find("delta");
    CHECK((delta.find("role") != nullptr) == (i == 0));
    for (const auto& member : delta.members) CHECK(!member.value.is_null());
    REQUIRE(result.finish.empty());
    result.finish = text_of(choice, "finish_reason");
    CHECK((result.finish.empty() || delta.members.empty()));
    result.reasoning += text_of(delta, "reasoning_content");
    result.content += text_of(delta, "content");
    if (const json::Value* calls = delta.find("tool_calls")) take_call(result, calls->items.at(0));
  }
  CHECK((result.finish == "stop" || result.finish == "length" || result.finish == "tool_calls"));
  return result;
}

Message whole(World& world, const std::string& body) {
  const Reply reply = world.post("/v1/chat/completions", body);
  INFO(reply.body);
  REQUIRE(reply.status == 200);
  CHECK(reply.headers.at("content-type") == "application/json");
  return from_whole(reply.json());
}

std::string streaming(std::string body) {
  body.pop_back();
  return body + R"(,"stream":true,"stream_options":{"include_usage":true}})";
}

}  // namespace k3::test
