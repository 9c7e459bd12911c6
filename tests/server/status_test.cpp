// /slots, /props, and health as monitors ask for it.
#include "tests/catch.hpp"
#include "tests/server/message.hpp"
#include "tests/server/prometheus.hpp"
#include "tests/server/temporary.hpp"

using namespace k3;
using namespace k3::test;
using namespace std::chrono_literals;

namespace {

template <class Condition>
json::Value slots_until(World& world, Condition holds) {
  for (;;) {
    json::Value slots = world.get("/slots").json();
    if (holds(slots)) return slots;
  }
}

std::string field(const json::Value& slot, std::string_view name) {
  const json::Value* value = slot.find(name);
  REQUIRE(value != nullptr);
  return value->text;
}

std::string keyed(World& world, std::string_view path, int expected) {
  Client client(world.server->port());
  client.send(request("GET", path));
  const Reply reply = client.reply();
  CHECK(reply.status == expected);
  return reply.body;
}

}  // namespace

TEST_CASE("/slots shows running and queued answers, and no word of theirs") {
  World world;
  CHECK(world.get("/slots").body == "[]");
  world.model->script({.ids = plain_output("confidential"), .pause = Phase::decode, .pause_after = 3});
  Client running(world.server->port());
  running.send(request("POST", "/v1/chat/completions", chat_body(R"("user":"private")", true), "X-Request-Id: the-first\r\n"));
  world.model->wait_paused(1);
  Client waiting(world.server->port());
  waiting.send(request("POST", "/v1/chat/completions", chat_body(), "X-Request-Id: the-second\r\n"));
  const json::Value slots = slots_until(
      world, [](const json::Value& now) { return now.items.size() == 2 && now.items[0].find("output_tokens")->text == "3"; });
  CHECK(field(slots.items[0], "id") == "the-first");
  CHECK(field(slots.items[0], "state") == "decode");
  CHECK(std::stoi(field(slots.items[0], "prompt_tokens")) > 3);
  CHECK(std::stod(field(slots.items[0], "age_s")) >= 0);
  CHECK(field(slots.items[1], "id") == "the-second");
  CHECK(field(slots.items[1], "state") == "queued");
  CHECK(field(slots.items[1], "ahead") == "0");
  CHECK(field(slots.items[1], "output_tokens") == "0");
  const std::string text = world.get("/slots").body;
  for (const char* word : {"private", "confidential", "hi\""}) CHECK(text.find(word) == std::string::npos);
  waiting.close();
  world.model->release();
  CHECK(running.reply().events().back() == "[DONE]");
  slots_until(world, [](const json::Value& now) { return now.items.empty(); });
}

TEST_CASE("/props tells how the server was set up, and no secret") {
  const TemporaryFolder folder;
  server::ServerOptions options;
  options.api_key_file = folder.write("keyfile", "secret-key\n");
  options.ping_interval = 7s;
  World world(options);
  for (const char* path : {"/props", "/slots", "/metrics"})
    CHECK(keyed(world, path, 401).find("invalid_api_key") != std::string::npos);
  Client client(world.server->port());
  client.send(request("GET", "/props", "", "x-api-key: secret-key\r\n"));
  const Reply reply = client.reply();
  const json::Value props = reply.json();
  CHECK(props.find("model")->text == "scripted");
  CHECK(props.find("n_ctx")->text == "100000");
  CHECK(props.find("ping_interval_ms")->text == "7000");
  CHECK(props.find("limits")->find("body_bytes")->text == "33554432");
  CHECK(props.find("limits")->find("header_fields")->text == "100");
  for (const char* word : {"secret", "keyfile", "tmp"}) CHECK(reply.body.find(word) == std::string::npos);
  CHECK(world.post("/props", "{}").status == 401);
}

TEST_CASE("thinking is ended by the answer's id, by whoever may") {
  server::ServerOptions options;
  const TemporaryFolder folder;
  options.api_key_file = folder.write("keys", "a:key-of-a\nb:key-of-b\n");
  World world(options);
  world.model->script({.ids = plain_output("one"), .pause = Phase::decode});
  const std::string mine = "Authorization: Bearer key-of-a\r\n";
  Client client(world.server->port());
  client.send(request("POST", "/v1/chat/completions", chat_body("", true), mine));
  world.model->wait_paused(1);
  Reply head;
  REQUIRE(client.head(head) == 200);
  std::string chunk;
  do chunk = client.chunk();
  while (!chunk.starts_with("data: "));
  const std::string id = text_of(json::parse(std::string_view(chunk).substr(6)).value(), "id");
  const auto ask = [&](const std::string& which, const std::string& key) {
    return world.post("/v1/chat/completions/" + which + "/end_thinking", "", "Authorization: Bearer " + key + "\r\n");
  };
  CHECK(ask("chatcmpl-0", "key-of-a").status == 404);
  CHECK(ask(id, "key-of-b").status == 404);
  CHECK(ask(id, "none").status == 401);
  CHECK(!world.model->last_ticket()->thinking_unwanted());
  const Reply done = ask(id, "key-of-a");
  CHECK(done.status == 200);
  CHECK(text_of(done.json(), "id") == id);
  CHECK(world.model->last_ticket()->thinking_unwanted());
  world.model->release();
  world.model->wait_ended(1);
  CHECK(world.get("/v1/chat/completions/x/end_thinking").status == 401);
}

TEST_CASE("/metrics may be opened to all, and nothing else with it") {
  const TemporaryFolder folder;
  server::ServerOptions options;
  options.api_key_file = folder.write("keys", "secret\n");
  options.metrics_public = true;
  World world(options);
  const Scrape now = read_metrics(keyed(world, "/metrics", 200));
  CHECK(now.at("process_resident_memory_bytes") > 1e6);
  CHECK(now.at("process_open_fds") > 3);
  CHECK(now.at("process_max_fds") >= now.at("process_open_fds"));
  CHECK(now.at("process_threads") >= 2);
  CHECK(now.at("process_cpu_seconds_total") >= 0);
  CHECK(now.at("process_start_time_seconds") > 1.5e9);
  keyed(world, "/slots", 401);
  keyed(world, "/props", 401);
}

TEST_CASE("tokens are counted by the channel they belong to") {
  World world;
  // A thought, an answer, and the structure around them.
  const auto ids = plain_output("one two three");
  world.model->script({.ids = ids});
  REQUIRE(world.chat().status == 200);
  const Scrape now = read_metrics(world.get("/metrics").body);
  CHECK(now.at(R"(k3_generated_tokens_total{channel="think"})") > 0);
  CHECK(now.at(R"(k3_generated_tokens_total{channel="response"})") > 0);
  CHECK(now.at(R"(k3_generated_tokens_total{channel="tool"})") == 0);
  CHECK(now.sum("k3_generated_tokens_total") <= static_cast<double>(ids.size()));
  CHECK(now.sum("k3_generated_tokens_total") >= 5);
}

TEST_CASE("a reader that takes nothing is counted") {
  server::ServerOptions options;
  options.limits.write_stall = 100ms;
  options.limits.ticket_events = 1'000'000;
  World world(options);
  world.model->script({.ids = {65}, .endless = true, .pause = Phase::decode, .pause_after = 60'000});
  Client client(world.server->port(), 4096);
  client.send(request("POST", "/v1/completions", R"({"prompt":"x","max_tokens":100000000,"stream":true})"));
  world.model->wait_cancelled(1);
  while (read_metrics(world.get("/metrics").body).at("k3_sse_backpressure_drops_total") != 1) {
  }
}

TEST_CASE("health, liveness and readiness are told apart, with HEAD as with GET") {
  World world({}, false);
  const auto statuses = [&](std::string_view method) {
    return std::vector<int>{world.get("/health", method).status, world.get("/livez", method).status,
                            world.get("/readyz", method).status};
  };
  for (const char* method : {"GET", "HEAD"}) CHECK(statuses(method) == std::vector<int>{503, 200, 503});
  CHECK(world.get("/health").body == R"({"status":"loading"})");
  world.give_model();
  for (const char* method : {"GET", "HEAD"}) CHECK(statuses(method) == std::vector<int>{200, 200, 200});
  // A HEAD tells the length of what it does not send, and the connection goes on right behind it.
  Client client(world.server->port());
  client.send(request("HEAD", "/health") + request("GET", "/livez"));
  CHECK(client.reply(true).headers.at("content-length") == "15");
  CHECK(client.reply().body == R"({"status":"ok"})");
  world.model->script({.ids = plain_output("x"), .pause = Phase::decode});
  Client streaming(world.server->port());
  streaming.send(request("POST", "/v1/chat/completions", chat_body("", true)));
  world.model->wait_paused(1);
  world.server->drain(1h);
  for (const char* method : {"GET", "HEAD"}) CHECK(statuses(method) == std::vector<int>{503, 200, 503});
  world.model->release();
  CHECK(streaming.reply().events().back() == "[DONE]");
}
