// What holds for Messages and Responses as it does for chats: errors in their own envelopes, signs of life, runs that are joined.
#include "tests/catch.hpp"
#include "tests/server/named_events.hpp"
#include "tests/server/temporary.hpp"
#include "tests/server/timed_answers.hpp"

using namespace k3;
using namespace k3::test;
using namespace std::chrono_literals;

namespace {

const std::string kMessage = R"({"max_tokens":1000,"messages":[{"role":"user","content":"hi"}])";
const std::string kResponse = R"({"input":"hi")";

std::string message(bool stream, const std::string& headers = "", const std::string& extra = "") {
  return request("POST", "/v1/messages", kMessage + extra + (stream ? R"(,"stream":true})" : "}"), headers);
}
std::string response(bool stream, const std::string& headers = "", const std::string& extra = "") {
  return request("POST", "/v1/responses", kResponse + extra + (stream ? R"(,"stream":true})" : "}"), headers);
}

void check_envelope(const Reply& reply, int status, std::string_view type) {
  INFO(reply.body);
  CHECK(reply.status == status);
  const auto error = reply.json();
  CHECK(text_of(error, "type") == "error");
  CHECK(text_of(error, "request_id") == reply.headers.at("x-request-id"));
  CHECK(text_of(*error.find("error"), "type") == type);
  CHECK(!text_of(*error.find("error"), "message").empty());
}

Reply send(World& world, const std::string& bytes) {
  Client client(world.server->port());
  client.send(bytes);
  return client.reply();
}

// Of the events up to the end, each as it came.
std::vector<std::string> rest_of(Client& client) {
  std::vector<std::string> chunks;
  for (std::string chunk = client.chunk(); !chunk.empty(); chunk = client.chunk()) chunks.push_back(chunk);
  return chunks;
}

}  // namespace

TEST_CASE("errors of the Messages protocol come in its envelope, wherever they were made") {
  const TemporaryFolder folder;
  server::ServerOptions options;
  options.api_key_file = folder.write("keys", "me:secret\n");
  options.limits.body_bytes = 40'000;
  options.limits.bodies_bytes = 200'000;
  World world(options, false);
  const std::string key = "x-api-key: secret\r\n";
  check_envelope(send(world, message(false)), 401, "authentication_error");
  check_envelope(send(world, message(false, "x-api-key: wrong\r\n")), 401, "authentication_error");
  check_envelope(send(world, message(false, key)), 503, "overloaded_error");
  world.give_model();
  check_envelope(send(world, message(false, key + "Origin: https://elsewhere.example\r\n")), 403, "permission_error");
  check_envelope(send(world, request("POST", "/v1/messages/batches", "{}", key)), 404, "not_found_error");
  check_envelope(send(world, request("GET", "/v1/messages", "", key)), 405, "invalid_request_error");
  check_envelope(send(world, "POST /v1/messages HTTP/1.1\r\nHost: localhost\r\n" + key + "Content-Length: 40001\r\n\r\n"), 413,
                 "request_too_large");
  check_envelope(send(world, message(false, key + "X-Keepalive: louder\r\n")), 400, "invalid_request_error");
  world.model->script({.ids = plain_output("ok"), .fail_at = 1});
  const Reply failed = send(world, message(false, key));
  check_envelope(failed, 500, "api_error");
  CHECK(failed.headers.at("x-should-retry") == "false");
  world.model->script({.ids = plain_output("ok")});
  CHECK(send(world, message(false, "Authorization: Bearer secret\r\n")).status == 200);
  // Other paths keep OpenAI's.
  CHECK(send(world, response(false)).error_field("code") == "invalid_api_key");
  CHECK(send(world, request("POST", "/v1/messagesx", "{}", key)).error_field("code") == "not_found");
}

TEST_CASE("a prompt that is too long is told in the words that agents look for") {
  World world;
  world.model->context_limit = 10;
  const Reply reply = send(world, message(false));
  check_envelope(reply, 400, "invalid_request_error");
  CHECK(text_of(*reply.json().find("error"), "message").starts_with("prompt is too long: "));
  CHECK(text_of(*reply.json().find("error"), "message").ends_with(" tokens > 10 maximum"));
  const Reply other = send(world, response(false));
  CHECK(other.error_field("code") == "context_length_exceeded");
  CHECK(other.error_field("param") == "input");
}

TEST_CASE("a full queue is told with advice in every protocol") {
  World world;
  world.model->queue_capacity = 1;
  world.model->script({.ids = plain_output("ok"), .pause = Phase::queued});
  Client first(world.server->port());
  first.send(message(true));
  world.model->wait_paused(1);
  const Reply refused = send(world, message(true));
  check_envelope(refused, 429, "rate_limit_error");
  CHECK(std::stoi(refused.headers.at("retry-after")) >= 2);
  CHECK(send(world, response(true)).error_field("code") == "queue_full");
  world.model->release();
  CHECK(first.reply().complete);
}

TEST_CASE("Messages: message_start comes at admission, then pings by the clock, and a late failure is an error event") {
  TestClock clock;
  World world(timed(clock));
  world.model->script({.ids = plain_output("ok"), .pause = Phase::prefill, .fail_at = 3});
  Client client(world.server->port());
  client.send(message(true));
  Reply head;
  CHECK(client.head(head) == 200);
  CHECK(client.chunk().starts_with("event: message_start\n"));
  world.model->wait_paused(1);
  for (int i = 0; i < 3; ++i) {
    world.settle();
    clock.advance(*world.server, 10s);
    CHECK(client.chunk() == "event: ping\ndata: {\"type\":\"ping\"}\n\n");
  }
  world.model->release();
  const auto chunks = rest_of(client);
  REQUIRE(!chunks.empty());
  CHECK(chunks.back().starts_with("event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"api_error\""));
  CHECK(chunks.back().find(head.headers.at("x-request-id")) != std::string::npos);
  for (const auto& chunk : chunks) CHECK(chunk.find("message_delta") == std::string::npos);
  CHECK(client.closed());
}

TEST_CASE("Responses: it is created at admission, pings are comments, and a late failure is a failed response") {
  TestClock clock;
  World world(timed(clock));
  for (const bool delta : {false, true}) {
    world.model->script({.ids = plain_output("ok"), .pause = Phase::prefill, .fail_at = 3});
    Client client(world.server->port());
    client.send(response(true, "", delta ? R"(,"sse_ping_style":"delta")" : ""));
    Reply head;
    CHECK(client.head(head) == 200);
    CHECK(client.chunk().starts_with("event: response.created\n"));
    CHECK(client.chunk().starts_with("event: response.in_progress\n"));
    world.model->wait_paused(delta ? 2 : 1);
    world.settle();
    clock.advance(*world.server, 10s);
    const std::string ping = client.chunk();
    CHECK((delta ? ping.starts_with("event: response.in_progress\n") : ping == ": ping\n\n"));
    world.model->release();
    const auto chunks = rest_of(client);
    REQUIRE(!chunks.empty());
    CHECK(chunks.back().starts_with("event: response.failed\n"));
    CHECK(chunks.back().find(R"("status":"failed")") != std::string::npos);
    CHECK(chunks.back().find(R"("code":"server_error")") != std::string::npos);
    CHECK(client.closed());
  }
}

TEST_CASE("Responses: a ping in the middle of an item is more of it, and after one names what there is") {
  TestClock clock;
  World world(timed(clock));
  const auto ids = output_of("hm");
  world.model->script({.ids = plain_output("ok"), .pause = Phase::decode, .pause_after = ids.size()});
  Client client(world.server->port());
  client.send(response(true, "", R"(,"sse_ping_style":"delta")"));
  Reply head;
  CHECK(client.head(head) == 200);
  world.model->wait_paused(1);
  // created, in progress, the item, its part, and what was thought.
  for (std::size_t i = 0; i < 4 + ids.size(); ++i) CHECK(!client.chunk().empty());
  world.settle();
  clock.advance(*world.server, 10s);
  const std::string ping = client.chunk();
  CHECK(ping.starts_with("event: response.reasoning_text.delta\n"));
  CHECK(ping.find(R"("delta":"")") != std::string::npos);
  world.model->release();
  CHECK(rest_of(client).back().starts_with("event: response.completed\n"));
}

TEST_CASE("no pings where they are off, and reports on the prompt where they are asked for") {
  TestClock clock;
  World world(timed(clock));
  std::size_t paused = 0;
  for (const bool messages : {true, false}) {
    world.model->script({.ids = plain_output("ok"), .pause = Phase::prefill});
    Client quiet(world.server->port());
    const std::string off = R"(,"sse_ping_style":"off")";
    quiet.send(messages ? message(true, "", off) : response(true, "", off));
    world.model->wait_paused(++paused);
    world.settle();
    clock.advance(*world.server, 1h);
    world.settle();
    world.model->release();
    for (const auto& event : named_events(quiet.reply())) CHECK(event.name != "ping");
    world.model->script({.ids = plain_output("ok"), .reports = 2});
    const std::string progress = R"(,"return_progress":true)";
    const Reply reply = send(world, messages ? message(true, "", progress) : response(true, "", progress));
    std::size_t reports = 0;
    for (const auto& event : named_events(reply)) {
      const json::Value* told = event.data.find("prompt_progress");
      if (told == nullptr) continue;
      ++reports;
      CHECK(event.name == (messages ? "ping" : "response.in_progress"));
      CHECK(number_of(*told, "total") > 0);
    }
    CHECK(reports >= 2);
  }
}

TEST_CASE("answers that are not streamed are kept alive in every protocol") {
  TestClock clock;
  World world(timed(clock));
  std::size_t paused = 0;
  for (const std::string& bytes : {message(false), response(false)}) {
    world.model->script({.ids = plain_output("ok"), .pause = Phase::prefill});
    Client client(world.server->port());
    client.send(bytes);
    world.model->wait_paused(++paused);
    world.settle();
    clock.advance(*world.server, 20s);
    Reply reply;
    CHECK(client.head(reply) == 200);
    CHECK(client.chunk() == " ");
    world.model->release();
    CHECK(json::parse(client.chunk()).has_value());
    CHECK(client.chunk().empty());
  }
}

TEST_CASE("a request sent again joins its run in every protocol, and gets the same answer") {
  World world;
  const std::string key = "Idempotency-Key: abc\r\n";
  std::size_t paused = 0;
  for (const bool messages : {true, false}) {
    world.model->script({.ids = plain_output("ok"), .pause = Phase::prefill});
    const std::string bytes = messages ? message(false, key) : response(false, key);
    Client first(world.server->port());
    first.send(bytes);
    world.model->wait_paused(++paused);
    Client second(world.server->port());
    second.send(bytes);
    world.settle();
    world.model->release();
    const Reply one = first.reply();
    const Reply other = second.reply();
    CHECK(other.headers.at("x-k3-joined") == "true");
    CHECK(text_of(one.json(), "id") == text_of(other.json(), "id"));
    CHECK(world.model->jobs_started() == paused);
  }
}

TEST_CASE("metrics know the paths of all protocols") {
  World world;
  world.model->script({.ids = plain_output("ok")});
  CHECK(send(world, message(false)).status == 200);
  CHECK(send(world, response(true)).status == 200);
  const std::string metrics = world.get("/metrics").body;
  CHECK(metrics.find(R"(endpoint="/v1/messages")") != std::string::npos);
  CHECK(metrics.find(R"(endpoint="/v1/responses")") != std::string::npos);
}
