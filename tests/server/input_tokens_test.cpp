// Counting a prompt before asking, in each protocol; what that will cost.
#include <fstream>

#include "tests/catch.hpp"
#include "tests/server/named_events.hpp"

using namespace k3;
using namespace k3::test;

namespace {

const std::string kMessages = R"("messages":[{"role":"system","content":"be brief"},{"role":"user","content":"hi there"}])";

std::string golden_chats() {
  std::ifstream file(K3_TEST_DATA "/xtml_cases.json");
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

struct KnowingModel final : ScriptedModel {
  std::optional<std::size_t> cached_tokens(std::span<const std::int32_t> prompt) const override { return prompt.size() - 4; }
};

}  // namespace

TEST_CASE("each protocol's count is what its usage says afterwards") {
  World world;
  world.model->script({.ids = plain_output("ok")});
  const auto chat = world.post("/v1/chat/completions/input_tokens", "{" + kMessages + "}").json();
  const auto usage = world.post("/v1/chat/completions", "{" + kMessages + "}").json();
  CHECK(number_of(chat, "input_tokens") == number_of(*usage.find("usage"), "prompt_tokens"));

  const std::string response = R"({"instructions":"be brief","input":"hi there"})";
  const auto counted = world.post("/v1/responses/input_tokens", response).json();
  CHECK(number_of(counted, "input_tokens") ==
        number_of(*world.post("/v1/responses", response).json().find("usage"), "input_tokens"));
  CHECK(number_of(counted, "input_tokens") == number_of(chat, "input_tokens"));

  const std::string message = R"({"system":"be brief","messages":[{"role":"user","content":"hi there"}])";
  const auto count = world.post("/v1/messages/count_tokens", message + "}").json();
  CHECK(count.members.size() == 1);
  CHECK(number_of(count, "input_tokens") == number_of(chat, "input_tokens"));
  const auto answer = world.post("/v1/messages", message + R"(,"max_tokens":9})").json();
  CHECK(number_of(count, "input_tokens") == number_of(*answer.find("usage"), "input_tokens"));
}

TEST_CASE("tools and formats are counted, and counting asks the model for nothing") {
  World world;
  const auto count = [&](const std::string& extra) {
    return number_of(world.post("/v1/chat/completions/input_tokens", "{" + kMessages + extra + "}").json(), "input_tokens");
  };
  CHECK(count(R"(,"tools":[{"type":"function","function":{"name":"f"}}])") > count("") + 10);
  CHECK(count(R"(,"response_format":{"type":"json_object"})") > count("") + 10);
  CHECK(count(R"(,"reasoning_effort":"none")") < count(""));
  CHECK(world.model->jobs_started() == 0);
  // Even where the context would not hold it.
  world.model->context_limit = 20;
  CHECK(count("") > 20);
  CHECK(world.post("/v1/chat/completions", "{" + kMessages + "}").status == 400);
}

TEST_CASE("what is not known is null, and what is known is told") {
  World world;
  const auto ask = [&] { return world.post("/v1/chat/completions/input_tokens", "{" + kMessages + "}").json(); };
  const auto before = ask();
  CHECK(before.find("cached_tokens")->is_null());
  CHECK(before.find("estimated_seconds")->is_null());
  world.model->script({.ids = plain_output("ok"), .pause = Phase::decode, .pause_after = 1});
  Client client(world.server->port());
  client.send(request("POST", "/v1/chat/completions", "{" + kMessages + "}"));
  world.model->wait_paused(1);
  world.model->release();
  CHECK(client.reply().status == 200);
  const auto after = ask();
  const json::Value* seconds = after.find("estimated_seconds");
  REQUIRE(seconds->is_object());
  CHECK(seconds->find("per_100_answer_tokens")->as_double().value() > 0);
}

TEST_CASE("of a prompt that is in memory only the rest is computed") {
  World world;
  world.model = std::make_shared<KnowingModel>();
  world.give_model();
  const auto told = world.post("/v1/responses/input_tokens", R"({"input":"hi there"})").json();
  // All but the three that open the answer and the last one before.
  CHECK(number_of(told, "cached_tokens") + 1 == number_of(told, "input_tokens"));
}

TEST_CASE("what cannot be counted is refused as it would be when asked") {
  World world;
  CHECK(world.post("/v1/chat/completions/input_tokens", R"({"messages":[]})").error_field("param") == "messages");
  CHECK(world.post("/v1/chat/completions/input_tokens", "{").error_field("code") == "invalid_json");
  CHECK(world.post("/v1/responses/input_tokens", R"({"input":[{"type":"poem"}]})").error_field("param") == "input[0].type");
  CHECK(world.post("/v1/responses/input_tokens", R"({"input":"x","reasoning":{"effort":"best"}})").error_field("param") ==
        "reasoning.effort");
  const Reply reply = world.post("/v1/messages/count_tokens", R"({"messages":[{"role":"user","content":[{"type":"image"}]}]})");
  CHECK(reply.status == 400);
  CHECK(reply.error_field("message").find("messages[0].content[0]") != std::string::npos);
  CHECK(text_of(reply.json(), "type") == "error");
}

TEST_CASE("a count is the template's, without what opens the answer") {
  World world;
  const json::Value document = json::parse(golden_chats()).value();
  std::size_t counted = 0;
  for (const json::Value& example : document.find("cases")->items) {
    for (const char* effort : {"low", "none"}) {
      std::string body;
      json::Writer writer(body);
      writer.begin_object().key("reasoning_effort").string(effort);
      for (const char* name : {"messages", "tools", "response_format"}) {
        if (const json::Value* value = example.find(name)) writer.key(name).value(*value);
      }
      writer.end_object();
      INFO(example.find("name")->text);
      const auto shown = world.post("/apply-template", body);
      const auto count = world.post("/v1/chat/completions/input_tokens", body);
      REQUIRE(shown.status == count.status);
      if (shown.status != 200) continue;
      ++counted;
      // <|open|>, its name, <|sep|>.
      CHECK(number_of(count.json(), "input_tokens") + 3 == static_cast<std::int64_t>(shown.json().find("tokens")->items.size()));
    }
  }
  CHECK(counted > 80);
}
