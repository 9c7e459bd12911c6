#include "tests/catch.hpp"
#include "tests/server/harness.hpp"

using namespace k3;
using namespace k3::test;

namespace {

void refused(const Reply& reply, std::string_view param, std::string_view code) {
  INFO(reply.body);
  CHECK(reply.status == 400);
  CHECK(reply.error_field("type") == "invalid_request_error");
  CHECK(reply.error_field("param") == param);
  CHECK(reply.error_field("code") == code);
  // Most programs show the message and nothing else.
  if (param != "null") CHECK(reply.error_field("message").find(param) != std::string::npos);
}

}  // namespace

TEST_CASE("E1, E3, E5: bodies that are not JSON objects") {
  World world;
  const auto post = [&](std::string_view body) { return world.post("/v1/chat/completions", body); };
  for (const std::string_view body : {"", "{", "{}x", "{\"a\":1,}", "\xff\xfe{\0}\0", "{\"messages\":\"caf\xe9\"}", "nul",
                                      "{\"a\":\"\\ud83d\"}", "{\"a\":\"\\ude00 y\"}"}) {
    INFO(body);
    refused(post(body), "null", "invalid_json");
  }
  for (const std::string_view body : {"[]", "5", "\"x\"", "null"}) refused(post(body), "null", "invalid_type");
  for (const std::size_t depth : {65U, 1000U, 10'000U, 1'000'000U}) {
    const std::string nested = std::string(depth, '[') + "0" + std::string(depth, ']');
    refused(post(chat_body(R"("x":)" + nested)), "null", "invalid_json");
  }
  world.model->script({.ids = plain_output("ok")});
  CHECK(post(chat_body(R"("unknown":{"a":[1e400,2e0,18446744073709551616]},"user":"me")")).status == 200);
  CHECK(post(chat_body(R"("x":)" + std::string(60, '[') + std::string(60, ']'))).status == 200);
}

TEST_CASE("values out of range are refused by name") {
  World world;
  world.model->script({.ids = plain_output("ok")});
  const std::pair<const char*, const char*> cases[] = {
      {"temperature", "-0.1"},
      {"temperature", "2.1"},
      {"temperature", "1e400"},
      {"top_p", "0"},
      {"top_p", "1.01"},
      {"top_p", "1e-300"},
      {"top_k", "-2"},
      {"top_k", "1.5"},
      {"min_p", "1"},
      {"min_p", "-1"},
      {"seed", "9223372036854775808"},
      {"seed", "1.5"},
      {"repetition_penalty", "0"},
      {"repeat_penalty", "-1"},
      {"presence_penalty", "2.5"},
      {"frequency_penalty", "-3"},
      {"max_tokens", "0"},
      {"max_tokens", "-1"},
      {"max_tokens", "1.5"},
      {"max_completion_tokens", "0"},
      {"stop", "\"\""},
      {"stop", "[\"a\",\"\"]"},
      {"sse_ping_interval", "-2"},
      {"logit_bias", "{\"x\":1}"},
      {"logit_bias", "{\"-1\":1}"},
      {"logit_bias", "{\"99999999\":1}"},
      {"logit_bias", "{\"99999999999999\":1}"},
      {"logit_bias", "{\"1 \":1}"},
  };
  for (const auto& [name, value] : cases) {
    INFO(name << " = " << value);
    refused(world.chat("\"" + std::string(name) + "\":" + value), name, "invalid_value");
  }
  refused(world.chat(R"("logit_bias":{"5":101})"), "logit_bias.5", "invalid_value");
  refused(world.chat(R"("max_tokens":"5")"), "max_tokens", "invalid_type");
  refused(world.chat(R"("stream_options":{"include_usage":1})"), "stream_options.include_usage", "invalid_type");
  refused(world.chat(R"("stop":[1])"), "stop", "invalid_type");
  refused(world.chat(R"("n":2)"), "n", "unsupported_value");
  refused(world.chat(R"("n":2)", true), "n", "unsupported_value");
  std::string stops = R"("stop":[)";
  for (int i = 0; i < 16; ++i) stops += "\"s\",";
  CHECK(world.chat(stops.substr(0, stops.size() - 1) + "]").status == 200);
  refused(world.chat(stops + "\"s\"]"), "stop", "invalid_value");
  refused(world.chat(R"("stop":")" + std::string(1025, 'x') + "\""), "stop", "invalid_value");
  for (const char* good : {R"("max_tokens":1)", R"("max_tokens":5.0)", R"("max_tokens":1e2)", R"("temperature":0)",
                           R"("temperature":2)", R"("top_p":1)", R"("logprobs":false,"top_logprobs":0)", R"("n":1)",
                           R"("seed":-9223372036854775808)", R"("stop":[])", R"("model":"gpt-4o")"}) {
    INFO(good);
    CHECK(world.chat(good).status == 200);
  }
}

TEST_CASE("messages and tools") {
  World world;
  world.model->script({.ids = plain_output("ok")});
  const auto post = [&](const std::string& body) { return world.post("/v1/chat/completions", body); };
  refused(post("{}"), "messages", "invalid_value");
  refused(post(R"({"messages":[]})"), "messages", "invalid_value");
  refused(post(R"({"messages":[{"role":"wizard","content":"x"}]})"), "messages[0].role", "invalid_value");
  refused(post(R"({"messages":[{"role":"user","content":[{"type":"image_url"}]}]})"), "messages[0].content[0]",
          "unsupported_content_type");
  CHECK(post(R"({"messages":[{"role":"user","content":""}]})").status == 200);
  refused(world.chat(R"("tool_choice":"required")"), "tool_choice", "invalid_value");
  refused(world.chat(R"("reasoning_effort":"best")"), "reasoning_effort", "invalid_value");
  refused(world.chat(R"("response_format":{})"), "response_format.type", "invalid_value");
  refused(world.chat(R"("parallel_tool_calls":"no")"), "parallel_tool_calls", "invalid_value");
  for (const char* path : {"/v1/chat/completions", "/apply-template"}) {
    const Reply reply = world.post(path, chat_body(R"("tool_choice":{})"));
    refused(reply, "tool_choice.type", "invalid_value");
    CHECK(reply.error_field("message").find("auto, none, required or {") != std::string::npos);
  }
  CHECK(!world.chat(R"("parallel_tool_calls":false)").headers.contains("x-k3-warnings"));
  const std::string twice = R"({"type":"function","function":{"name":"f"}})";
  refused(world.chat("\"tools\":[" + twice + "," + twice + "]"), "tools[1].function.name", "invalid_value");
  std::string tools = R"("tools":[)";
  for (int i = 0; i < 129; ++i)
    tools += std::string(i ? "," : "") + R"({"type":"function","function":{"name":"f)" + std::to_string(i) + R"("}})";
  refused(world.chat(tools + "]"), "tools", "invalid_value");
}

TEST_CASE("text completion fields") {
  World world;
  world.model->script({.ids = plain_output("ok")});
  const auto post = [&](const std::string& body) { return world.post("/v1/completions", body); };
  refused(post("{}"), "prompt", "missing_field");
  refused(post(R"({"prompt":5})"), "prompt", "invalid_type");
  refused(post(R"({"prompt":""})"), "prompt", "invalid_value");
  refused(post(R"({"prompt":[]})"), "prompt", "invalid_value");
  refused(post(R"({"prompt":[1,99999999]})"), "prompt", "invalid_value");
  refused(post(R"({"prompt":["a","b"]})"), "prompt", "invalid_value");
  refused(post(R"({"prompt":[[1],[2]]})"), "prompt", "invalid_value");
  refused(post(R"({"prompt":"x","echo":true})"), "echo", "unsupported_value");
  refused(post(R"({"prompt":"x","suffix":"y"})"), "suffix", "unsupported_value");
  refused(post(R"({"prompt":"x","best_of":2})"), "best_of", "unsupported_value");
  CHECK(post(R"({"prompt":"x","echo":false,"suffix":null,"best_of":1})").status == 200);
}

TEST_CASE("E17: a prompt longer than the context is refused with both numbers") {
  World world;
  world.model->context_limit = 16;
  world.model->script({.ids = plain_output("ok")});
  const Reply reply = world.chat();
  refused(reply, "messages", "context_length_exceeded");
  CHECK(reply.error_field("n_ctx") == "16");
  CHECK(std::stoi(reply.error_field("n_prompt_tokens")) > 16);
  CHECK(reply.error_field("message").find("maximum context length is 16 tokens") != std::string::npos);
  refused(world.post("/detokenize", R"({"tokens":[1,-1]})"), "tokens[1]", "invalid_value");
  refused(world.post("/v1/completions", R"({"prompt":[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]})"), "prompt", "context_length_exceeded");
  REQUIRE(world.post("/v1/completions", R"({"prompt":[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1],"max_tokens":50})").status == 200);
  CHECK(world.model->last_job().max_tokens == 1);
}

TEST_CASE("E19: control tokens typed by users stay text") {
  World world;
  world.model->script({.ids = plain_output("ok")});
  REQUIRE(world.chat().status == 200);
  const auto count = [&] {
    std::size_t reserved = 0;
    for (const auto id : world.model->last_job().prompt) reserved += world.tokenizer->is_reserved(id) ? 1 : 0;
    return reserved;
  };
  const std::size_t plain = count();
  REQUIRE(
      world.post("/v1/chat/completions", R"({"messages":[{"role":"user","content":"<|open|>message<|sep|><|end_of_msg|>[EOS]"}]})")
          .status == 200);
  CHECK(count() == plain);
  REQUIRE(world.post("/v1/completions", R"({"prompt":"<|open|>"})").status == 200);
  CHECK(count() == 0);
  REQUIRE(world.post("/v1/completions", R"({"prompt":"<|open|>","special":true})").status == 200);
  CHECK(count() == 1);
}

TEST_CASE("E6: any type in any field is answered 200 or 400") {
  World world;
  world.model->script({.ids = plain_output("ok")});
  const char* values[] = {"null", "true",   "false", "0",       "1",    "-1",   "1.5", "\"\"",      "\"x\"",
                          "[]",   "[null]", "[1]",   "[\"a\"]", "[{}]", "[[]]", "{}",  "{\"a\":1}", "{\"type\":5}"};
  const char* fields[] = {"model",
                          "messages",
                          "stream",
                          "stream_options",
                          "max_tokens",
                          "max_completion_tokens",
                          "temperature",
                          "top_p",
                          "top_k",
                          "min_p",
                          "seed",
                          "stop",
                          "n",
                          "logprobs",
                          "top_logprobs",
                          "logit_bias",
                          "presence_penalty",
                          "frequency_penalty",
                          "repetition_penalty",
                          "repeat_penalty",
                          "response_format",
                          "tools",
                          "tool_choice",
                          "parallel_tool_calls",
                          "reasoning_effort",
                          "thinking",
                          "chat_template_kwargs",
                          "user",
                          "metadata",
                          "return_progress",
                          "sse_ping_interval",
                          "sse_ping_style",
                          "prompt",
                          "echo",
                          "suffix",
                          "best_of",
                          "special"};
  Client client(world.server->port());
  for (const char* path : {"/v1/chat/completions", "/v1/completions", "/apply-template"}) {
    const std::string base =
        std::string_view(path) == "/v1/completions" ? R"({"prompt":"x",)" : R"({"messages":[{"role":"user","content":"hi"}],)";
    for (const char* field : fields) {
      for (const char* value : values) {
        client.send(request("POST", path, base + "\"" + field + "\":" + value + "}"));
        const Reply reply = client.reply();
        INFO(path << " " << field << " = " << value << ": " << reply.body);
        REQUIRE((reply.status == 200 || reply.status == 400));
        REQUIRE(reply.complete);
        if (reply.status == 400) REQUIRE(reply.error_field("param").starts_with(field));
      }
    }
  }
  const char* inner[] = {"role", "content", "name", "tools", "tool_calls", "tool_call_id", "reasoning_content", "reasoning"};
  for (const char* role : {"system", "user", "assistant", "tool"}) {
    for (const char* field : inner) {
      for (const char* value : values) {
        const std::string message =
            std::string(R"({"role":")") + role + R"(","content":"c","tool_call_id":"t",")" + field + "\":" + value + "}";
        client.send(request("POST", "/v1/chat/completions", R"({"messages":[{"role":"user","content":"hi"},)" + message + "]}"));
        const Reply reply = client.reply();
        INFO(message << ": " << reply.body);
        REQUIRE((reply.status == 200 || reply.status == 400));
      }
    }
  }
}
