// The rules of section C and their neighbours: what each chunk looks like, and that a stream says what the whole answer says.
#include <random>

#include "tests/catch.hpp"
#include "tests/server/message.hpp"

using namespace k3;
using namespace k3::test;

namespace {

// Some output of the model: channels in their order or not, complete or cut, of words that are hard to cut or that look like
// markers.
class OutputMaker {
 public:
  explicit OutputMaker(unsigned seed) : random_(seed) {}

  std::vector<std::int32_t> make() {
    std::vector<text::Segment> segments;
    if (one_in(8)) return noise();
    say(segments);
    mark(segments, "close", "think");
    if (!one_in(6)) {
      mark(segments, "open", "response");
      say(segments);
      if (!one_in(5)) mark(segments, "close", "response");
    }
    if (one_in(2)) calls(segments);
    if (!one_in(5)) mark(segments, "close", "message");
    segments.push_back({"<|end_of_msg|>", true});
    auto ids = mini_tokenizer()->encode(segments).value();
    if (one_in(3)) ids.resize(below(ids.size() + 1));
    return ids;
  }

 private:
  std::size_t below(std::size_t count) { return random_() % count; }
  bool one_in(std::size_t count) { return below(count) == 0; }

  // Single bytes of code points, markers in the wrong place, and what ids there are.
  std::vector<std::int32_t> noise() {
    std::vector<std::int32_t> ids;
    for (std::size_t i = below(60); i > 0; --i) ids.push_back(static_cast<std::int32_t>(below(1794)));
    return ids;
  }
  std::string words() {
    constexpr const char* kWords[] = {
        "hm",  " well", "😀", "汉字", " ď", "\n\n", "<tag>", "think", "response", "message", " \\\"", "{}", "👩‍👩‍👧",
        " 42", " end",  ""};
    std::string text;
    for (std::size_t i = below(12); i > 0; --i) text += kWords[below(std::size(kWords))];
    return text;
  }
  void say(std::vector<text::Segment>& segments) { segments.push_back({words(), false}); }
  void mark(std::vector<text::Segment>& segments, const std::string& what, std::string tag) {
    segments.push_back({"<|" + what + "|>", true});
    segments.push_back({std::move(tag), false});
    segments.push_back({"<|sep|>", true});
  }
  void calls(std::vector<text::Segment>& segments) {
    mark(segments, "open", "tools");
    for (std::size_t i = 1 + below(3); i > 0; --i) {
      mark(segments, "open", "call tool=\"f\" index=\"1\"");
      for (std::size_t k = below(3); k > 0; --k) {
        mark(segments, "open", one_in(2) ? "argument key=\"a\" type=\"string\"" : "argument key=\"b\" type=\"object\"");
        segments.push_back({one_in(3) ? R"({"x": [1, 2]})" : words(), false});
        if (!one_in(6)) mark(segments, "close", "argument");
      }
      if (!one_in(6)) mark(segments, "close", "call");
    }
    mark(segments, "close", "tools");
  }

  std::mt19937 random_;
};

// A call that was not finished is in the stream, which cannot take it back, and not in the whole answer.
void drop_unfinished(Message& streamed) {
  std::erase_if(streamed.calls, [](const Call& call) { return !json::parse(call.arguments).has_value(); });
}

}  // namespace

TEST_CASE("C9, C10, C12: what 200 streams say is what the whole answers say, over all channels") {
  World world;
  OutputMaker maker(7);
  std::size_t with_calls = 0, with_content = 0, with_reasoning = 0;
  for (int i = 0; i < 200; ++i) {
    world.model->script({.ids = maker.make()});
    INFO("output " << i << ": " << world.tokenizer->decode(world.model->scripted_ids()));
    const Message message = whole(world, chat_body());
    Message streamed = from_stream(world.post("/v1/chat/completions", streaming(chat_body())), true);
    drop_unfinished(streamed);
    CHECK(streamed == message);
    CHECK((!message.calls.empty() || message.finish != "tool_calls"));
    with_calls += message.calls.empty() ? 0 : 1;
    with_content += message.content.empty() ? 0 : 1;
    with_reasoning += message.reasoning.empty() ? 0 : 1;
  }
  // Or the test would not test anything.
  CHECK(with_calls > 40);
  CHECK(with_content > 100);
  CHECK(with_reasoning > 100);
}

TEST_CASE("C7: an answer cut in the middle of a call is cut by its length, however many calls came before") {
  World world;
  const std::string call = "<|open|>call tool=\"f\" index=\"1\"<|sep|><|close|>call<|sep|>";
  const std::string begin = "<|close|>think<|sep|><|open|>tools<|sep|>";
  const auto finish = [&](const std::string& text) {
    world.model->script({.ids = world.tokenizer->encode(begin + text, true).value()});
    const Message message = whole(world, chat_body());
    CHECK(from_stream(world.post("/v1/chat/completions", streaming(chat_body())), true).finish == message.finish);
    return message.finish;
  };
  CHECK(finish(call) == "tool_calls");
  CHECK(finish(call + "<|open|>call tool=\"f\" index=\"2\"<|sep|><|open|>argument key=\"a\"<|sep|>x") == "length");
  CHECK(finish("<|open|>call tool=\"f\" index=\"1\"<|sep|>") == "length");
  CHECK(finish(call + "<|close|>tools<|sep|><|close|>message<|sep|><|end_of_msg|>") == "tool_calls");
}

TEST_CASE("C1, C2, C3: a fault in mid-stream is one error object, then the end of the connection") {
  World world;
  for (const std::string extra :
       {"", R"("return_progress":true,"stream_options":{"include_usage":true},"sse_ping_style":"delta")"}) {
    world.model->script({.ids = plain_output("one two three"), .fail_at = 3});
    Client client(world.server->port());
    client.send(request("POST", "/v1/chat/completions", chat_body(extra, true)));
    const Reply reply = client.reply();
    std::size_t errors = 0;
    for (const auto& event : reply.events()) {
      const auto chunk = json::parse(event).value();
      if (const json::Value* error = chunk.find("error")) {
        ++errors;
        for (const char* field : {"message", "type", "code"}) CHECK(!text_of(*error, field).empty());
        CHECK(error->find("param") != nullptr);
        CHECK(!error->find("should_retry")->boolean);
        continue;
      }
      REQUIRE(chunk.find("choices") != nullptr);
      for (const auto& choice : chunk.find("choices")->items) CHECK(choice.find("finish_reason")->is_null());
      CHECK(chunk.find("usage") == nullptr);
    }
    CHECK(errors == 1);
    CHECK(reply.events().back().find("\"error\"") != std::string::npos);
    CHECK(client.closed());
  }
}

TEST_CASE("C2: what is wrong with a request is said before the stream begins") {
  World world;
  for (const char* wrong : {R"("n":0)", R"("n":2)", R"("top_logprobs":21,"logprobs":true)"}) {
    const Reply reply = world.chat(wrong, true);
    CHECK(reply.status == 400);
    CHECK(reply.headers.at("content-type") == "application/json");
  }
}

TEST_CASE("C4, C5: every chunk has its choices, empty ones only where they were asked for") {
  World world;
  world.model->script({.ids = plain_output("one")});
  for (const char* path : {"/v1/chat/completions", "/v1/completions"}) {
    for (const bool usage : {false, true}) {
      for (const bool progress : {false, true}) {
        std::string body = std::string_view(path) == "/v1/completions" ? R"({"prompt":"x","stream":true)" : chat_body("", true);
        if (body.back() == '}') body.pop_back();
        if (usage) body += R"(,"stream_options":{"include_usage":true})";
        if (progress) body += R"(,"return_progress":true)";
        auto events = world.post(path, body + "}").events();
        CHECK(events.back() == "[DONE]");
        events.pop_back();
        for (std::size_t i = 0; i < events.size(); ++i) {
          INFO(events[i]);
          const auto chunk = json::parse(events[i]).value();
          REQUIRE(chunk.find("choices") != nullptr);
          const bool is_usage = usage && i + 1 == events.size();
          const bool is_progress = chunk.find("prompt_progress") != nullptr;
          CHECK((progress || !is_progress));
          CHECK(chunk.find("choices")->items.empty() == (is_usage || is_progress));
          CHECK((chunk.find("usage") != nullptr) == is_usage);
        }
      }
    }
  }
}

TEST_CASE("what a request says that means nothing here is ignored and named") {
  World world;
  world.model->script({.ids = plain_output("ok")});
  const auto ignored = [&](std::string_view extra, bool stream = false) {
    const Reply reply = world.chat(extra, stream);
    REQUIRE(reply.status == 200);
    return reply.headers.contains("x-k3-ignored") ? reply.headers.at("x-k3-ignored") : std::string("none");
  };
  CHECK(ignored("") == "none");
  CHECK(ignored(R"("user":"u","metadata":{"a":1})") == "user,metadata");
  CHECK(ignored(R"("user":"u","store":true)", true) == "user,store");
  // Null is absent, and who names a thing twice is not told twice.
  CHECK(ignored(R"("user":null,"x":1,"x":2)") == "x");
  // Of a text completion, not of a chat.
  CHECK(ignored(R"("echo":true)") == "echo");
  CHECK(ignored(R"("temperature":1,"tools":null,"thinking":null,"sse_ping_style":null,"logprobs":null)") == "none");
  // A header is one line of printable ASCII, whatever a client calls its fields, and not a long one.
  CHECK(ignored("\"a\\r\\nb: c, ž\":1") == "a??b:?c????");
  CHECK(ignored("\"" + std::string(1000, 'x') + "\":1") == std::string(64, 'x'));
  std::string many = R"("f0":0)";
  std::string named = "f0";
  for (int i = 1; i < 40; ++i) {
    many += ",\"f" + std::to_string(i) + "\":0";
    if (i < 16) named += ",f" + std::to_string(i);
  }
  CHECK(ignored(many) == named + ",+24");
  const Reply text = world.post("/v1/completions", R"({"prompt":"x","messages":[],"tools":[],"suffix":null})");
  CHECK(text.headers.at("x-k3-ignored") == "messages,tools");
}

TEST_CASE("an explicit null is absent everywhere, but for the effort that is then not spoken of") {
  World world;
  world.model->script({.ids = plain_output("ok")});
  REQUIRE(world.chat().status == 200);
  const auto plain = world.model->last_job();
  for (const char* field : {"model",
                            "n",
                            "temperature",
                            "top_p",
                            "top_k",
                            "min_p",
                            "repetition_penalty",
                            "repeat_penalty",
                            "presence_penalty",
                            "frequency_penalty",
                            "seed",
                            "logit_bias",
                            "stop",
                            "stream",
                            "stream_options",
                            "return_progress",
                            "sse_ping_style",
                            "sse_ping_interval",
                            "logprobs",
                            "top_logprobs",
                            "max_tokens",
                            "max_completion_tokens",
                            "tools",
                            "tool_choice",
                            "parallel_tool_calls",
                            "response_format",
                            "reasoning_effort",
                            "thinking",
                            "chat_template_kwargs",
                            "unheard_of"}) {
    INFO(field);
    const Reply reply = world.chat("\"" + std::string(field) + "\":null");
    REQUIRE(reply.status == 200);
    CHECK(!reply.headers.contains("x-k3-ignored"));
    const auto job = world.model->last_job();
    CHECK(job.prompt == plain.prompt);
    CHECK(job.max_tokens == plain.max_tokens);
    CHECK(job.sampling.temperature == plain.sampling.temperature);
    CHECK(job.sampling.top_p == plain.sampling.top_p);
  }
  REQUIRE(world.chat(R"("chat_template_kwargs":{"enable_thinking":null,"thinking":null})").status == 200);
  CHECK(world.model->last_job().prompt == plain.prompt);
  REQUIRE(world.chat(R"("chat_template_kwargs":{"thinking_effort":null})").status == 200);
  CHECK(world.model->last_job().prompt.size() < plain.prompt.size());
}

TEST_CASE("usage tells what was thought, and what needed no computing") {
  World world;
  world.model->script({.ids = plain_output("one two three")});
  const Reply stream = world.post("/v1/chat/completions", streaming(chat_body()));
  const auto events = stream.events();
  const auto streamed = json::parse(events.at(events.size() - 2)).value();
  const auto whole_answer = world.chat().json();
  for (const json::Value* usage : {streamed.find("usage"), whole_answer.find("usage")}) {
    CHECK(usage->find("completion_tokens")->as_int().value() == static_cast<std::int64_t>(plain_output("one two three").size()));
    const auto reasoning = usage->find("completion_tokens_details")->find("reasoning_tokens")->as_int().value();
    CHECK(reasoning == static_cast<std::int64_t>(mini_tokenizer()->encode("hm", false).value().size()));
    CHECK(usage->find("prompt_tokens_details")->find("cached_tokens")->as_int().value() == 0);
  }
  CHECK(text_of(streamed, "system_fingerprint") == text_of(whole_answer, "system_fingerprint"));
}
