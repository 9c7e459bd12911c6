#include "tests/catch.hpp"
#include "tests/server/harness.hpp"

using namespace k3;
using namespace k3::test;

namespace {

enum class Leave { close, reset, half_close };

void leave(Client& client, Leave how) {
  if (how == Leave::close) client.close();
  if (how == Leave::reset) client.reset();
  if (how == Leave::half_close) client.half_close();
}

// After whatever happened, the next client must be served.
void check_alive(World& world) {
  world.model->script({.ids = plain_output("still here")});
  CHECK(world.chat().json().find("choices")->items[0].find("message")->find("content")->text == "still here");
  CHECK(world.chat("", true).events().back() == "[DONE]");
}

}  // namespace

TEST_CASE("A1, A3, A7, A8: a client that leaves in any phase takes its job with it") {
  World world;
  std::size_t cancelled = 0;
  std::size_t paused = 0;
  for (const bool stream : {false, true}) {
    for (const Phase phase : {Phase::queued, Phase::prefill, Phase::decode}) {
      for (const Leave how : {Leave::close, Leave::reset, Leave::half_close}) {
        INFO("stream " << stream << " phase " << static_cast<int>(phase) << " how " << static_cast<int>(how));
        world.model->script({.ids = plain_output("one two three"), .endless = true, .pause = phase});
        Client client(world.server->port());
        client.send(request("POST", "/v1/chat/completions", chat_body("", stream)));
        world.model->wait_paused(++paused);
        leave(client, how);
        world.model->wait_cancelled(++cancelled);
        if (how == Leave::half_close) CHECK(client.closed());
      }
    }
  }
  check_alive(world);
}

TEST_CASE("a client that leaves before its request is whole never reaches the model") {
  World world;
  const std::string all = request("POST", "/v1/chat/completions", chat_body());
  for (const Leave how : {Leave::close, Leave::reset, Leave::half_close}) {
    for (std::size_t cut = 1; cut < all.size(); cut += 7) {
      Client client(world.server->port());
      client.send(std::string_view(all).substr(0, cut));
      leave(client, how);
      if (how == Leave::half_close) CHECK(client.closed());
    }
  }
  CHECK(world.model->jobs_started() == 0);
  check_alive(world);
}

TEST_CASE("A2: jobs of clients that left the queue are never run") {
  World world;
  world.model->script({.ids = plain_output("x"), .pause = Phase::decode});
  Client running(world.server->port());
  running.send(request("POST", "/v1/chat/completions", chat_body("", true)));
  world.model->wait_paused(1);
  world.model->script({.ids = plain_output("x")});
  {
    Client gone[3] = {Client(world.server->port()), Client(world.server->port()), Client(world.server->port())};
    for (auto& client : gone) {
      client.send(request("POST", "/v1/chat/completions", chat_body("", true)));
      Reply head;
      // The head comes at admission, so the job is in the queue now.
      CHECK(client.head(head) == 200);
    }
  }
  Client waiting(world.server->port());
  waiting.send(request("POST", "/v1/chat/completions", chat_body("", true)));
  Reply head;
  CHECK(waiting.head(head) == 200);
  // The three sessions learn of it in their own time; a round trip through the same thread comes after.
  for (int i = 0; i < 3; ++i) CHECK(world.get("/health").status == 200);
  world.model->release();
  world.model->wait_cancelled(3);
  CHECK(running.reply().events().back() == "[DONE]");
  world.model->wait_ended(2);
  CHECK(world.model->jobs_started() == 2);
}

TEST_CASE("a client that leaves behind a pipelined request is noticed") {
  World world;
  world.model->script({.ids = plain_output("one two three"), .endless = true, .pause = Phase::prefill});
  Client client(world.server->port());
  client.send(request("POST", "/v1/chat/completions", chat_body("\"sse_ping_interval\":0.01", true)));
  world.model->wait_paused(1);
  client.send(request("GET", "/health"));
  client.close();
  world.model->wait_cancelled(1);
  check_alive(world);
}

TEST_CASE("A6: one stream's end does not touch another") {
  World world;
  world.model->script({.ids = plain_output("long"), .pause = Phase::decode});
  Client first(world.server->port());
  first.send(request("POST", "/v1/chat/completions", chat_body("", true)));
  world.model->wait_paused(1);
  for (int i = 0; i < 200; ++i) {
    Client other(world.server->port());
    other.send(request("POST", "/v1/chat/completions", chat_body("", i % 2 == 0)));
    other.reset();
    CHECK(world.get("/health").status == 200);
  }
  world.model->release();
  CHECK(first.reply().events().back() == "[DONE]");
}

TEST_CASE("G7: a reader that takes nothing is dropped and its job cancelled") {
  server::ServerOptions options;
  options.limits.write_stall = std::chrono::milliseconds(100);
  options.limits.ticket_events = 1'000'000;
  World world(options);
  // Some 10 MB of events, more than the kernel holds for a socket, well below the ticket's capacity; then silence.
  world.model->script({.ids = {65}, .endless = true, .pause = Phase::decode, .pause_after = 60'000});
  Client client(world.server->port(), 4096);
  client.send(request("POST", "/v1/completions", R"({"prompt":"x","max_tokens":100000000,"stream":true})"));
  world.model->wait_cancelled(1);
  check_alive(world);
}

TEST_CASE("G7: a reader that lags too far behind is told so, or dropped") {
  // The model outruns the stream: past the ticket's capacity the job is cancelled rather than memory filled.
  server::ServerOptions options;
  options.limits.ticket_events = 64;
  World world(options);
  world.model->context_limit = 10'000'000;
  world.model->script({.ids = {65}, .endless = true});
  Client client(world.server->port(), 4096);
  client.send(request("POST", "/v1/completions", R"({"prompt":"x","max_tokens":9000000,"stream":true})"));
  world.model->wait_cancelled(1);
  const Reply reply = client.reply();
  CHECK(reply.body.find("[DONE]") == std::string::npos);
  check_alive(world);
}
