// What clients of all kinds send as a conversation, and what reaches the model of it.
#include "tests/catch.hpp"
#include "tests/server/harness.hpp"

using namespace k3;
using namespace k3::test;

namespace {

// What the model would read; the error's code where the request is refused.
std::string prompt_of(World& world, const std::string& messages) {
  const Reply reply = world.post("/apply-template", R"({"messages":[)" + messages + "]}");
  return reply.status == 200 ? reply.json().find("prompt")->text : reply.error_field("code");
}

const std::string question = R"({"role":"user","content":"hi"},)";
const std::string result = R"(,{"role":"tool","tool_call_id":"a","content":"7"})";
const std::string call = R"("tool_calls":[{"id":"a","type":"function","function":{"name":"look","arguments":"{\"at\":5}"}}])";

}  // namespace

TEST_CASE("E8, E9: a message that is nothing but calls may have null, empty or no content, and reaches the model whole") {
  World world;
  const std::string with_empty = prompt_of(world, question + R"({"role":"assistant","content":"",)" + call + "}" + result);
  CHECK(with_empty.find("look") != std::string::npos);
  CHECK(with_empty.find(R"(key="at" type="number"<|sep|>5<|close|>)") != std::string::npos);
  CHECK(prompt_of(world, question + R"({"role":"assistant","content":null,)" + call + "}" + result) == with_empty);
  CHECK(prompt_of(world, question + R"({"role":"assistant",)" + call + "}" + result) == with_empty);
}

TEST_CASE("E10: a turn that was thought only has an empty answer") {
  World world;
  const std::string prompt =
      prompt_of(world, question + R"({"role":"assistant","reasoning_content":"hm"},{"role":"user","content":"well?"})");
  CHECK(prompt.find("hm<|close|>think<|sep|><|open|>response<|sep|><|close|>response<|sep|>") != std::string::npos);
}

TEST_CASE("E11: parts of a text are one text, and an image is refused where it stands") {
  World world;
  const auto part = [](const char* text) { return std::string(R"({"type":"text","text":")") + text + "\"}"; };
  const std::string parts = R"({"role":"user","content":[)" + part("a ") + "," + part("b") + "," + part(" c") + "]}";
  CHECK(prompt_of(world, parts) == prompt_of(world, R"({"role":"user","content":"a b c"})"));
  for (const char* type : {"image_url", "image", "input_image"}) {
    const std::string image = std::string(R"({"type":")") + type + R"(","image_url":{"url":"data:"}})";
    const Reply reply = world.post("/v1/chat/completions", R"({"messages":[)" + question + R"({"role":"user","content":[)" +
                                                               part("see") + "," + image + "]}]}");
    CHECK(reply.status == 400);
    CHECK(reply.error_field("code") == "unsupported_content_type");
    CHECK(reply.error_field("param") == "messages[1].content[1]");
  }
}

TEST_CASE("E12: no messages are an error, empty ones are not") {
  World world;
  world.model->script({.ids = plain_output("ok")});
  CHECK(world.post("/v1/chat/completions", R"({"messages":[]})").status == 400);
  for (const char* content : {R"("")", "[]"}) {
    CHECK(world.post("/v1/chat/completions", std::string(R"({"messages":[{"role":"user","content":)") + content + "}]}").status ==
          200);
  }
}

TEST_CASE("E15: bounds of the answer's length are taken, refused by name, or lowered and said") {
  World world;
  world.model->script({.ids = plain_output("ok")});
  for (const char* name : {"max_tokens", "max_completion_tokens"}) {
    const auto with = [&](const char* value) { return world.chat("\"" + std::string(name) + "\":" + value); };
    for (const char* wrong : {"0", "-1", "1.5", "\"5\""}) {
      INFO(name << " = " << wrong);
      const Reply reply = with(wrong);
      CHECK(reply.status == 400);
      CHECK(reply.error_field("param") == name);
    }
    CHECK(with("1").status == 200);
    CHECK(world.model->last_job().max_tokens == 1);
    const Reply lowered = with("100000000");
    CHECK(lowered.status == 200);
    CHECK(world.model->last_job().max_tokens == world.model->context_limit - world.model->last_job().prompt.size());
    CHECK(lowered.headers.at("x-k3-warnings").find("max_tokens was lowered to ") != std::string::npos);
  }
  CHECK(world.chat(R"("max_tokens":5,"max_completion_tokens":3)").status == 200);
  CHECK(world.model->last_job().max_tokens == 3);
}

TEST_CASE("E3, E4: half a surrogate pair is refused, or replaced where that is asked for") {
  const std::string bodies[] = {R"({"messages":[{"role":"user","content":"a\ud83db"}]})",
                                R"({"messages":[{"role":"user","content":"a\ude00b"}]})",
                                R"({"messages":[)" + question + R"({"role":"assistant",)" + call +
                                    R"(},{"role":"tool","tool_call_id":"a","content":"a\ud83d\ud83db"}]})"};
  {
    World strict;
    for (const std::string& body : bodies) {
      const Reply reply = strict.post("/apply-template", body);
      CHECK(reply.status == 400);
      CHECK(reply.error_field("message").find("at byte ") != std::string::npos);
      CHECK(reply.error_field("message").find("--lenient-unicode") != std::string::npos);
    }
    CHECK(strict.post("/apply-template", R"({"messages":"\x"})").error_field("message").find("lenient") == std::string::npos);
  }
  server::ServerOptions options;
  options.lenient_unicode = true;
  World lenient(options);
  for (const std::string& body : bodies) {
    const Reply reply = lenient.post("/apply-template", body);
    REQUIRE(reply.status == 200);
    CHECK(reply.json().find("prompt")->text.find("a\xEF\xBF\xBD") != std::string::npos);
  }
  // Whole pairs are what they were, and a backslash may be spelled before a u.
  const Reply whole = lenient.post("/apply-template", R"({"messages":[{"role":"user","content":"\ud83d\ude00 \\ud83d"}]})");
  CHECK(whole.json().find("prompt")->text.find("😀 \\ud83d") != std::string::npos);
  CHECK(lenient.post("/apply-template", "{\"messages\":[{\"role\":\"user\",\"content\":\"\xff\"}]}").status == 400);
}
