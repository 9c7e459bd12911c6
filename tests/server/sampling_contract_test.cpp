// A server that keeps to Moonshot's contract: the values of sampling that chats may ask for, in every protocol, and what they get.
#include "tests/catch.hpp"
#include "tests/server/message.hpp"

using namespace k3;
using namespace k3::test;

namespace {

server::ServerOptions moonshot() {
  server::ServerOptions options;
  options.sampling_contract = server::SamplingContract::moonshot;
  // What the contract fixes is not the defaults' to say; what it leaves open is.
  options.sampling.temperature = 0.3F;
  options.sampling.top_p = 0.5F;
  options.sampling.top_k = 7;
  return options;
}

struct Protocol {
  std::string path, body, no_thinking;
};
const Protocol kProtocols[] = {
    {"/v1/chat/completions", R"({"messages":[{"role":"user","content":"hi"}])", R"(,"thinking":{"type":"disabled"})"},
    {"/v1/messages", R"({"max_tokens":50,"messages":[{"role":"user","content":"hi"}])", R"(,"thinking":{"type":"disabled"})"},
    {"/v1/responses", R"({"input":"hi")", R"(,"reasoning":{"effort":"none"})"},
};

}  // namespace

TEST_CASE("moonshot: a value of its own is taken, any other refused with the value and the flag, in every protocol") {
  World world(moonshot());
  world.model->script({.ids = plain_output("ok")});
  struct Case {
    const char* field;
    const char* value;
    bool thinking, taken;
  };
  const Case cases[] = {
      {"temperature", "1", true, true},
      {"temperature", "1.0", true, true},
      {"temperature", "0.6", true, false},
      {"temperature", "0", true, false},
      {"temperature", "0.99", true, false},
      {"temperature", "3", true, false},
      {"temperature", "1", false, true},
      {"temperature", "0.6", false, true},
      {"temperature", "0.0", false, true},
      {"temperature", "0.7", false, false},
      {"top_p", "0.95", true, true},
      {"top_p", "1", true, false},
      {"top_p", "0.9", false, false},
      {"presence_penalty", "0", true, true},
      {"presence_penalty", "0.1", true, false},
      {"frequency_penalty", "0.0", true, true},
      {"frequency_penalty", "-1", true, false},
      {"repetition_penalty", "1", true, true},
      {"repetition_penalty", "1.1", true, false},
      {"repeat_penalty", "1.1", false, false},
      {"temperature", "null", true, true},
      {"top_p", "null", true, true},
      {"n", "1", true, true},
      {"seed", "5", true, true},
      {"frequency_penalty", "5", false, false},
  };
  for (const Protocol& protocol : kProtocols) {
    for (const Case& test : cases) {
      const std::string body =
          protocol.body + (test.thinking ? "" : protocol.no_thinking) + ",\"" + test.field + "\":" + test.value + "}";
      INFO(protocol.path << " " << body);
      const Reply reply = world.post(protocol.path, body);
      CHECK(reply.status == (test.taken ? 200 : 400));
      if (test.taken) continue;
      CHECK(reply.body.find(test.field) != std::string::npos);
      CHECK(reply.body.find("--sampling-contract moonshot") != std::string::npos);
      CHECK(reply.body.find("--sampling-contract open") != std::string::npos);
      CHECK(reply.body.find(std::string_view(test.field) == "top_p" ? "0.95" : "must be ") != std::string::npos);
    }
  }
  CHECK(world.chat(R"("n":2)").status == 400);
  // What is wrong in itself is told as such.
  CHECK(world.chat(R"("temperature":"warm")").error_field("code") == "invalid_type");
  CHECK(world.chat(R"("reasoning_effort":"best","temperature":1)").error_field("param") == "reasoning_effort");
}

TEST_CASE("moonshot: what a chat does not say is as the contract has it, whatever the server's defaults") {
  World world(moonshot());
  world.model->script({.ids = plain_output("ok")});
  for (const Protocol& protocol : kProtocols) {
    for (const std::string& thinking : {std::string(), protocol.no_thinking}) {
      INFO(protocol.path << thinking);
      REQUIRE(world.post(protocol.path, protocol.body + thinking + "}").status == 200);
      const auto sampling = world.model->last_job().sampling;
      CHECK(sampling.temperature == 1);
      CHECK(sampling.top_p == 0.95F);
      CHECK(sampling.presence_penalty == 0);
      CHECK(sampling.frequency_penalty == 0);
      CHECK(sampling.top_k == 7);
    }
  }
  REQUIRE(world.chat(R"("thinking":{"type":"disabled"},"temperature":0.6)").status == 200);
  CHECK(world.model->last_job().sampling.temperature == 0.6F);
  // Texts, of which the contract knows nothing, stay free.
  REQUIRE(world.post("/v1/completions", R"({"prompt":"hi","top_p":0.7})").status == 200);
  CHECK(world.model->last_job().sampling.temperature == 0.3F);
  CHECK(world.model->last_job().sampling.top_p == 0.7F);
  const auto props = world.get("/props").json();
  CHECK(text_of(props, "sampling_contract") == "moonshot");
  CHECK(props.find("default_generation_settings")->find("temperature")->as_double().value() == 1);
}

TEST_CASE("open: any value in range is taken") {
  World world;
  world.model->script({.ids = plain_output("ok")});
  CHECK(world.chat(R"("temperature":0.7,"top_p":0.5,"presence_penalty":1,"frequency_penalty":-1)").status == 200);
  CHECK(text_of(world.get("/props").json(), "sampling_contract") == "open");
}

TEST_CASE("moonshot: the choice that ends a stream tells usage") {
  for (const bool contract : {false, true}) {
    World world(contract ? moonshot() : server::ServerOptions());
    world.model->script({.ids = plain_output("one two")});
    auto events = world.post("/v1/chat/completions", streaming(chat_body())).events();
    REQUIRE(events.size() > 3);
    std::size_t told = 0;
    for (std::size_t i = 0; i + 2 < events.size(); ++i) {
      const auto chunk = json::parse(events[i]).value();
      const json::Value& choice = chunk.find("choices")->items.at(0);
      const json::Value* usage = choice.find("usage");
      if (usage == nullptr) continue;
      ++told;
      CHECK(text_of(choice, "finish_reason") == "stop");
      // "chatcmpl-" and 24 digits.
      const std::string id = text_of(chunk, "id");
      CHECK(id.size() == 9 + 24);
      CHECK(id.find_first_not_of("0123456789abcdef", 9) == std::string::npos);
      CHECK(choice.find("delta")->members.empty());
      const auto last = json::parse(events[events.size() - 2]).value();
      CHECK(usage->find("total_tokens")->text == last.find("usage")->find("total_tokens")->text);
    }
    CHECK(told == (contract ? 1 : 0));
    if (contract) CHECK(world.chat().json().find("choices")->items.at(0).find("usage") == nullptr);
  }
}
