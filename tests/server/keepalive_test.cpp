// Answers that are not streamed and take long; and how events are written. Time stands still until a test moves it.
#include "tests/catch.hpp"
#include "tests/server/timed_answers.hpp"

using namespace k3;
using namespace k3::test;
using namespace std::chrono_literals;

namespace {

void check_whole(const std::string& body) {
  const auto answer = json::parse(body).value();
  CHECK(answer.find("choices")->items[0].find("text")->text == "bbbb");
}

}  // namespace

TEST_CASE("B2: an answer that is not streamed holds its status, then is padded; one request reaches the model") {
  TestClock clock;
  World world(timed(clock));
  world.model->script({.ids = {65, 65, 65, 65}, .pause = Phase::prefill});
  Client client(world.server->port());
  client.send(post_text("", false));
  world.model->wait_paused(1);
  world.settle();
  clock.advance(*world.server, 19'999ms);
  world.settle();
  clock.advance(*world.server, 1ms);
  Reply reply;
  CHECK(client.head(reply) == 200);
  CHECK(reply.headers.at("content-type") == "application/json");
  CHECK(reply.headers.at("transfer-encoding") == "chunked");
  CHECK(reply.headers.at("cache-control") == "no-cache, no-transform");
  CHECK(reply.headers.at("x-accel-buffering") == "no");
  CHECK(client.chunk() == " ");
  for (int i = 0; i < 3; ++i) {
    clock.advance(*world.server, 9'999ms);
    world.settle();
    clock.advance(*world.server, 1ms);
    CHECK(client.chunk() == " ");
  }
  world.model->release();
  check_whole(client.chunk());
  CHECK(client.chunk().empty());
  // The connection is as good as new.
  client.send(request("GET", "/livez"));
  CHECK(client.reply().status == 200);
  CHECK(world.model->jobs_started() == 1);
}

TEST_CASE("B2: a failure is a status while it can be, then a body without an end") {
  TestClock clock;
  World world(timed(clock));
  for (const bool late : {false, true}) {
    world.model->script({.ids = {65, 65}, .pause = Phase::prefill, .fail_at = 1});
    Client client(world.server->port());
    client.send(post_text("", false));
    world.model->wait_paused(late ? 2 : 1);
    world.settle();
    clock.advance(*world.server, late ? 20s : 19s);
    if (!late) {
      world.settle();
      world.model->release();
      const Reply reply = client.reply();
      CHECK(reply.status == 500);
      CHECK(reply.headers.at("x-should-retry") == "false");
      CHECK(reply.body.find("\"should_retry\":false") != std::string::npos);
      continue;
    }
    Reply head;
    CHECK(client.head(head) == 200);
    CHECK(client.chunk() == " ");
    world.model->release();
    CHECK(client.piece().empty());  // neither an error that would look like an answer, nor the last chunk
    CHECK(client.closed());
  }
}

TEST_CASE("B2: 102 is repeated and leaves the status open") {
  TestClock clock;
  World world(timed(clock));
  for (const bool fails : {false, true}) {
    world.model->script({.ids = {65, 65, 65, 65}, .pause = Phase::prefill});
    if (fails) world.model->script({.ids = {65, 65, 65, 65}, .pause = Phase::prefill, .fail_at = 2});
    Client client(world.server->port());
    client.send(request("POST", "/v1/completions", R"({"prompt":"x","max_tokens":100})", "X-Keepalive: 102\r\n"));
    world.model->wait_paused(fails ? 2 : 1);
    world.settle();
    for (int i = 0; i < 3; ++i) {
      clock.advance(*world.server, i == 0 ? 20s : 10s);
      Reply interim;
      CHECK(client.head(interim) == 102);
      CHECK(interim.headers.empty());
    }
    world.model->release();
    const Reply reply = client.reply();
    CHECK(reply.status == (fails ? 500 : 200));
    if (!fails) check_whole(reply.body);
  }
}

TEST_CASE("B2: who does not want to be kept alive, or cannot be, waits in silence") {
  TestClock clock;
  server::ServerOptions options = timed(clock);
  options.keepalive = server::Keepalive::off;
  World off(options);
  World on(timed(clock));
  const std::string body = R"({"prompt":"x","max_tokens":100})";
  std::string old = request("POST", "/v1/completions", body, "X-Keepalive: pad\r\n");
  old.replace(old.find("HTTP/1.1"), 8, "HTTP/1.0");
  std::size_t paused = 0;
  for (const auto& [world, text] : {std::pair(&off, request("POST", "/v1/completions", body)), std::pair(&on, old),
                                    std::pair(&on, request("POST", "/v1/completions", body, "X-Keepalive: off\r\n"))}) {
    world->model->script({.ids = {65, 65, 65, 65}, .pause = Phase::prefill});
    Client client(world->server->port());
    client.send(text);
    world->model->wait_paused(world == &off ? 1 : ++paused);
    for (int i = 0; i < 5; ++i) {
      world->settle();
      clock.advance(*world->server, 1h);
    }
    world->settle();
    world->model->release();
    const Reply reply = client.reply();
    CHECK(reply.status == 200);
    CHECK(reply.headers.contains("content-length"));
    check_whole(reply.body);
  }
  const Reply refused = on.post("/v1/completions", body, "X-Keepalive: louder\r\n");
  CHECK(refused.status == 400);
  CHECK(refused.error_field("param") == "X-Keepalive");
}

TEST_CASE("A11: who leaves a padded answer takes the job along") {
  TestClock clock;
  World world(timed(clock));
  world.model->script({.ids = {65}, .endless = true, .pause = Phase::decode});
  Client client(world.server->port());
  client.send(post_text("", false));
  world.model->wait_paused(1);
  world.settle();
  clock.advance(*world.server, 20s);
  Reply reply;
  CHECK(client.head(reply) == 200);
  CHECK(client.chunk() == " ");
  client.close();
  world.model->wait_cancelled(1);
}

TEST_CASE("C11: each event is one chunk and one write") {
  World world;
  world.model->script({.ids = {65, 65, 65, 65, 65, 65, 65, 65}, .pause = Phase::decode, .pause_after = 1, .pause_each = true});
  Client client(world.server->port());
  client.send(post_text());
  Reply reply;
  CHECK(client.head(reply) == 200);
  CHECK(client.chunk() == ": ping\n\n");
  CHECK(event(client.chunk()).find("choices") != nullptr);
  for (std::size_t i = 1; i < 7; ++i) {
    world.model->wait_paused(i);
    world.model->release();
    const std::string piece = client.piece();
    const std::size_t line = piece.find("\r\n");
    REQUIRE(line != std::string::npos);
    const std::size_t length = std::stoul(piece.substr(0, line), nullptr, 16);
    CHECK(piece.size() == line + 2 + length + 2);
    CHECK(event(piece.substr(line + 2, length)).find("choices") != nullptr);
  }
  world.model->wait_paused(7);
  world.model->release();
  client.reply();
}
