#include <fstream>

#include "tests/catch.hpp"
#include "tests/server/message.hpp"

using namespace k3;
using namespace k3::test;

TEST_CASE("recorded conversations come out as recorded, streamed and not") {
  World world;
  std::ifstream file(K3_TEST_DATA "/mini_transcripts.jsonl");
  std::size_t count = 0;
  for (std::string line; std::getline(file, line); ++count) {
    const auto record = json::parse(line).value();
    Script script;
    for (const auto& id : record.find("generated_ids")->items) script.ids.push_back(static_cast<std::int32_t>(id.as_int().value()));
    world.model->script(script);
    std::string body;
    json::Writer(body).value(*record.find("request"));
    INFO(body);
    const Message message = whole(world, body);
    const auto prompt = world.model->last_job().prompt;
    const auto& recorded = record.find("prompt_ids")->items;
    REQUIRE(prompt.size() == recorded.size());
    for (std::size_t i = 0; i < prompt.size(); ++i) REQUIRE(prompt[i] == recorded[i].as_int().value());
    const auto& expected = *record.find("message");
    CHECK(message.content == text_of(expected, "content"));
    CHECK(message.reasoning == text_of(expected, "reasoning_content"));
    CHECK(message.finish == text_of(record, "finish_reason"));
    CHECK(message.completion_tokens == static_cast<std::int64_t>(script.ids.size()));
    CHECK(message.prompt_tokens == static_cast<std::int64_t>(prompt.size()) - 3);
    const json::Value* calls = expected.find("tool_calls");
    REQUIRE(message.calls.size() == (calls == nullptr ? 0 : calls->items.size()));
    for (std::size_t i = 0; i < message.calls.size(); ++i) {
      const auto& function = *calls->items[i].find("function");
      CHECK(message.calls[i].name == text_of(function, "name"));
      std::string got, wanted;
      json::Writer(got).value(json::parse(message.calls[i].arguments).value());
      json::Writer(wanted).value(json::parse(text_of(function, "arguments")).value());
      CHECK(got == wanted);
    }
    CHECK(from_stream(world.post("/v1/chat/completions", streaming(body)), true) == message);
  }
  CHECK(count >= 40);
}

TEST_CASE("streamed and whole answers agree wherever the output is cut") {
  World world;
  const auto ids = plain_output("smile 😀, 汉字 & <tag> \\ \" \n end");
  for (std::size_t length = 0; length <= ids.size(); ++length) {
    world.model->script({.ids = {ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(length)}});
    INFO(length);
    const Message message = whole(world, chat_body());
    CHECK(message.finish == (length == ids.size() ? "stop" : "length"));
    CHECK(from_stream(world.post("/v1/chat/completions", streaming(chat_body())), true) == message);
  }
}

TEST_CASE("stop strings end the answer and the job") {
  World world;
  world.model->script({.ids = plain_output("alpha beta gamma")});
  const Message message = whole(world, chat_body(R"("stop":["zzz"," gam"])"));
  CHECK(message.content == "alpha beta");
  CHECK(message.finish == "stop");
  CHECK(from_stream(world.post("/v1/chat/completions", streaming(chat_body(R"("stop":" gam")"))), true) == message);
  // A stop string that only the thinking holds stops nothing.
  CHECK(whole(world, chat_body(R"("stop":"hm")")).content == "alpha beta gamma");
  // An endless answer is stopped in the middle of its run.
  world.model->script(
      {.ids = world.tokenizer->encode("<|close|>think<|sep|><|open|>response<|sep|> halt", true).value(), .endless = true});
  CHECK(whole(world, chat_body(R"("stop":"halt")")).finish == "stop");
  world.model->wait_cancelled(1);
}

TEST_CASE("a stop string may end an answer before the call that it must have, and that is said") {
  World world;
  world.model->script({.ids = plain_output("first END then")});
  const std::string tools = R"("tools":[{"type":"function","function":{"name":"f"}}],"stop":"END")";
  const std::string warning = "a stop string in the text before the call may end the answer without one";
  for (const char* choice : {R"("required")", R"({"type":"function","function":{"name":"f"}})"})
    CHECK(world.chat(tools + R"(,"tool_choice":)" + choice).headers.at("x-k3-warnings") == warning);
  CHECK(!world.chat(tools).headers.contains("x-k3-warnings"));
}

TEST_CASE("a stop string is honoured in an answer that must be JSON, and that it may cut it is said") {
  World world;
  world.model->script({.ids = plain_output(R"({"a":"x END y"})")});
  const std::string json = R"("response_format":{"type":"json_object"})";
  for (const bool stream : {false, true}) {
    const Reply cut = world.chat(json + R"(,"stop":["END"])", stream);
    REQUIRE(cut.status == 200);
    CHECK(cut.headers.at("x-k3-warnings") == "a stop string may end the JSON before it is whole");
    for (const std::string& other :
         {json, std::string(R"("stop":["END"])"), std::string(R"("response_format":{"type":"text"},"stop":"END")")})
      CHECK(!world.chat(other, stream).headers.contains("x-k3-warnings"));
  }
  const Message message = whole(world, chat_body(json + R"(,"stop":["END"])"));
  CHECK(message.content == R"({"a":"x )");
  CHECK(message.finish == "stop");
}

TEST_CASE("usage and timings") {
  World world;
  world.model->script({.ids = plain_output("x")});
  const auto answer = world.chat().json();
  const auto& usage = *answer.find("usage");
  CHECK(usage.find("prompt_tokens_details")->find("cached_tokens")->as_int().value() == 0);
  CHECK(usage.find("completion_tokens_details")->find("reasoning_tokens")->as_int().value() >= 1);
  const auto& timings = *answer.find("timings");
  CHECK(timings.find("queued_ms")->as_double().value() == 250);
  CHECK(timings.find("prompt_ms")->as_double().value() == 500);
  CHECK(timings.find("predicted_ms")->as_double().value() == 1000);
  // Without being asked for, no chunk has usage or empty choices.
  for (const auto& event : world.chat("", true).events()) {
    CHECK(event.find("\"usage\"") == std::string::npos);
    CHECK(event.find("\"choices\":[]") == std::string::npos);
  }
}

TEST_CASE("sampling fields reach the job") {
  World world;
  world.model->script({.ids = plain_output("x")});
  REQUIRE(
      world
          .chat(R"("temperature":0.5,"top_p":0.25,"top_k":7,"min_p":0.125,"seed":-3,"repeat_penalty":1.5,"presence_penalty":-1,)"
                R"("frequency_penalty":2,"logit_bias":{"5":-100,"7":1.5},"max_tokens":9,"max_completion_tokens":8)")
          .status == 200);
  const Job job = world.model->last_job();
  CHECK(job.sampling.temperature == 0.5F);
  CHECK(job.sampling.top_p == 0.25F);
  CHECK(job.sampling.top_k == 7);
  CHECK(job.sampling.min_p == 0.125F);
  CHECK(job.sampling.seed == static_cast<std::uint64_t>(-3));
  CHECK(job.sampling.repetition_penalty == 1.5F);
  CHECK(job.sampling.presence_penalty == -1.0F);
  CHECK(job.sampling.frequency_penalty == 2.0F);
  CHECK(job.sampling.logit_bias == std::vector<std::pair<std::int32_t, float>>{{5, -100.0F}, {7, 1.5F}});
  CHECK(job.max_tokens == 8);
  REQUIRE(world.chat(R"("top_k":-1,"seed":null,"max_completion_tokens":null,"max_tokens":9)").status == 200);
  CHECK(world.model->last_job().sampling.top_k == 0);
  CHECK(world.model->last_job().max_tokens == 9);
  const auto& control = world.tokenizer->control();
  CHECK(world.model->last_job().stop_ids == std::vector<std::int32_t>{control.end_of_message, control.end_of_sequence});
}

TEST_CASE("tool calls of the history are counted on") {
  World world;
  const std::string history =
      R"({"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"","tool_calls":[{"id":"f_0","type":"function",)"
      R"("function":{"name":"f","arguments":"{}"}}]},{"role":"tool","tool_call_id":"f_0","content":"1"}],)"
      R"("tools":[{"type":"function","function":{"name":"f","parameters":{}}}]})";
  world.model->script(
      {.ids = world.tokenizer
                  ->encode("<|close|>think<|sep|><|open|>response<|sep|><|close|>response<|sep|><|open|>tools<|sep|>"
                           "<|open|>call tool=\"f\" index=\"1\"<|sep|><|close|>call<|sep|><|close|>tools<|sep|>"
                           "<|close|>message<|sep|><|end_of_msg|>",
                           true)
                  .value()});
  const Message message = whole(world, history);
  REQUIRE(message.calls.size() == 1);
  CHECK(message.calls[0].id == "f_1");
  CHECK(message.finish == "tool_calls");
}

TEST_CASE("E16: what a request demands of its answer's form reaches the job, or is refused") {
  World world;
  world.model->script({.ids = plain_output("{}")});
  const auto form = [&](std::string_view extra) {
    REQUIRE(world.chat(extra).status == 200);
    return world.model->last_job().form;
  };
  CHECK(form("").grammar == nullptr);
  CHECK(form("").thinking.has_value());
  CHECK(!form("").thinking_budget);
  CHECK(form(R"("response_format":{"type":"text"})").grammar == nullptr);
  CHECK(form(R"("response_format":{"type":"json_object"})").grammar != nullptr);
  CHECK(form(R"("response_format":{"type":"json_object"})").trie != nullptr);
  CHECK(!form(R"("thinking":{"type":"disabled"})").thinking);
  CHECK(form(R"("reasoning_budget":7)").thinking_budget == 7);
  CHECK(form(R"("thinking_token_budget":0)").thinking_budget == 0);
  CHECK(!form(R"("reasoning_budget":-1)").thinking_budget);
  const std::string schema =
      R"("response_format":{"type":"json_schema","json_schema":{"name":"n","schema":{"type":"array","uniqueItems":true}}})";
  for (const bool stream : {false, true}) {
    const Reply refused = world.chat(schema, stream);
    CHECK(refused.status == 400);
    CHECK(refused.error_field("param") == "response_format.json_schema.schema");
    CHECK(refused.error_field("message").find("/uniqueItems") != std::string::npos);
  }
  const Reply clamped = world.chat(R"("max_tokens":100000000)", true);
  CHECK(clamped.headers.at("x-k3-warnings").find("max_tokens was lowered") == 0);
}

TEST_CASE("text completions") {
  World world;
  const auto ids = world.tokenizer->encode("one two three", false).value();
  world.model->script({.ids = ids});
  const auto answer = world.post("/v1/completions", R"({"prompt":"count","max_tokens":100})").json();
  CHECK(text_of(answer, "object") == "text_completion");
  CHECK(text_of(answer, "id").starts_with("cmpl-"));
  CHECK(text_of(answer.find("choices")->items.at(0), "text") == "one two three");
  CHECK(text_of(answer.find("choices")->items.at(0), "finish_reason") == "length");
  CHECK(world.model->last_job().prompt == world.tokenizer->encode("count", false).value());
  const Reply stream =
      world.post("/v1/completions", R"({"prompt":[1,2,3],"max_tokens":100,"stream":true,"stream_options":{"include_usage":true}})");
  std::string text;
  auto events = stream.events();
  CHECK(events.back() == "[DONE]");
  events.pop_back();
  for (const auto& event : events) {
    const auto chunk = json::parse(event).value();
    for (const auto& choice : chunk.find("choices")->items) text += text_of(choice, "text");
  }
  CHECK(text == "one two three");
  CHECK(json::parse(events.back()).value().find("usage")->find("prompt_tokens")->as_int().value() == 3);
  CHECK(world.model->last_job().prompt == std::vector<std::int32_t>{1, 2, 3});
  CHECK(world.post("/v1/completions", R"({"prompt":["one"]})").status == 200);
  CHECK(world.model->last_job().max_tokens == 16);
  CHECK(world.post("/v1/completions", R"({"prompt":"one two three four","stop":" th","max_tokens":99})")
            .json()
            .find("choices")
            ->items[0]
            .find("text")
            ->text == "one two");
}

TEST_CASE("the server's defaults hold for what a request does not say") {
  server::ServerOptions options;
  options.sampling.temperature = 0.25F;
  options.sampling.top_p = 0.5F;
  options.sampling.top_k = 7;
  options.sampling.min_p = 0.125F;
  options.thinking.on = false;
  World world(options);
  World plain;
  world.model->script({.ids = {65}});
  const auto post = [&](std::string_view path, const std::string& body) {
    REQUIRE(world.post(path, body).status == 200);
    return world.model->last_job();
  };
  for (const auto& [path, rest] : {std::pair("/v1/chat/completions", R"({"messages":[{"role":"user","content":"hi"}])"),
                                   std::pair("/v1/completions", R"({"prompt":"hi")")}) {
    INFO(path);
    const std::string begin = rest;
    for (const std::string silent : {"}", R"(,"temperature":null,"top_p":null,"top_k":null,"min_p":null})"}) {
      const auto sampling = post(path, begin + silent).sampling;
      CHECK(sampling.temperature == 0.25F);
      CHECK(sampling.top_p == 0.5F);
      CHECK(sampling.top_k == 7);
      CHECK(sampling.min_p == 0.125F);
    }
    const auto asked = post(path, begin + R"(,"temperature":1,"top_p":1,"top_k":0,"min_p":0,"seed":5})").sampling;
    CHECK(asked.temperature == 1);
    CHECK(asked.top_p == 1);
    CHECK(asked.top_k == 0);
    CHECK(asked.min_p == 0);
    CHECK(asked.seed == 5);
    CHECK(post(path, begin + "}").sampling.seed != post(path, begin + "}").sampling.seed);
  }
  const std::string silent = chat_body();
  const std::string off = chat_body(R"("reasoning_effort":"none")");
  const std::string on = chat_body(R"("reasoning_effort":"low")");
  CHECK(world.post("/apply-template", silent).body == plain.post("/apply-template", off).body);
  CHECK(world.post("/apply-template", on).body == plain.post("/apply-template", on).body);
  // Without thinking the first token is the answer's.
  const auto message = world.chat().json().find("choices")->items[0].find("message")->find("content")->text;
  CHECK(message == world.tokenizer->decode(std::vector<text::TokenId>{65}));
}
