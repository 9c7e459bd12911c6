// Answers that take long: what keeps their connections alive, and what is said meanwhile. Time stands still until a test moves it.
#include "tests/catch.hpp"
#include "tests/server/timed_answers.hpp"

using namespace k3;
using namespace k3::test;
using namespace std::chrono_literals;

namespace {

std::int64_t number(const json::Value& object, std::string_view name) {
  const json::Value* value = object.find(name);
  REQUIRE(value != nullptr);
  return value->as_int().value();
}

}  // namespace

TEST_CASE("B1, B3: pings come from admission on, in every phase, by the clock alone") {
  TestClock clock;
  World world(timed(clock));
  std::size_t paused = 0;
  for (const Phase phase : {Phase::queued, Phase::prefill, Phase::decode}) {
    INFO(static_cast<int>(phase));
    world.model->script({.ids = {65, 65, 65, 65}, .pause = phase});
    Client client(world.server->port());
    client.send(post_text());
    Reply reply;
    CHECK(client.head(reply) == 200);
    CHECK(client.chunk() == ": ping\n\n");
    world.model->wait_paused(++paused);
    if (phase == Phase::decode) {
      for (int i = 0; i < 2; ++i) CHECK(event(client.chunk()).find("choices") != nullptr);
    }
    world.settle();
    for (int i = 0; i < 4; ++i) {
      // Not a moment before its time: what comes next is the one ping, not two.
      clock.advance(*world.server, 9'999ms);
      world.settle();
      clock.advance(*world.server, 1ms);
      CHECK(client.chunk() == (phase == Phase::queued ? ": queued position=0 turn_in=0s\n\n" : ": ping\n\n"));
    }
    world.model->release();
    std::string last;
    for (std::string chunk = client.chunk(); !chunk.empty(); chunk = client.chunk()) {
      CHECK(chunk.starts_with("data: "));
      last = chunk;
    }
    CHECK(last == "data: [DONE]\n\n");
  }
}

TEST_CASE("B6, B7: pings as empty deltas, and no comment at all") {
  TestClock clock;
  for (const bool by_request : {false, true}) {
    server::ServerOptions options = timed(clock);
    if (!by_request) options.ping_style = server::PingStyle::delta;
    World world(options);
    world.model->script({.ids = plain_output("ok"), .pause = Phase::prefill});
    Client client(world.server->port());
    client.send(request("POST", "/v1/chat/completions", chat_body(by_request ? R"("sse_ping_style":"delta")" : "", true)));
    Reply reply;
    CHECK(client.head(reply) == 200);
    // The role is the first sign of life, and comes but once.
    CHECK(event(client.chunk()).find("choices")->items[0].find("delta")->find("role")->text == "assistant");
    world.model->wait_paused(1);
    world.settle();
    for (int i = 0; i < 3; ++i) {
      clock.advance(*world.server, 10s);
      const auto ping = event(client.chunk());
      CHECK(ping.find("object")->text == "chat.completion.chunk");
      REQUIRE(ping.find("choices")->items.size() == 1);
      CHECK(ping.find("choices")->items[0].find("delta")->members.empty());
      CHECK(ping.find("choices")->items[0].find("finish_reason")->is_null());
    }
    world.model->release();
    std::string last;
    for (std::string chunk = client.chunk(); !chunk.empty(); chunk = client.chunk()) {
      CHECK(!chunk.starts_with(":"));
      CHECK(chunk.find("\"role\"") == std::string::npos);
      last = chunk;
    }
    CHECK(last == "data: [DONE]\n\n");
  }
}

TEST_CASE("B6: pings as empty text, for text completions") {
  TestClock clock;
  World world(timed(clock));
  world.model->script({.ids = {65, 65, 65, 65}, .pause = Phase::queued});
  Client client(world.server->port());
  client.send(post_text(R"("sse_ping_style":"delta")"));
  Reply reply;
  CHECK(client.head(reply) == 200);
  CHECK(event(client.chunk()).find("choices")->items[0].find("text")->text.empty());
  world.model->wait_paused(1);
  world.settle();
  clock.advance(*world.server, 10s);
  CHECK(event(client.chunk()).find("choices")->items[0].find("text")->text.empty());
  world.model->release();
  for (std::string chunk = client.chunk(); !chunk.empty(); chunk = client.chunk()) CHECK(chunk.starts_with("data: "));
}

TEST_CASE("no pings where they are off, in style or by their interval") {
  TestClock clock;
  World world(timed(clock));
  std::size_t paused = 0;
  for (const std::string wish : {R"("sse_ping_style":"off")", R"("sse_ping_interval":0)"}) {
    world.model->script({.ids = plain_output("ok"), .pause = Phase::prefill});
    Client client(world.server->port());
    client.send(request("POST", "/v1/chat/completions", chat_body(wish, true)));
    world.model->wait_paused(++paused);
    world.settle();
    for (int i = 0; i < 10; ++i) {
      clock.advance(*world.server, 1h);
      world.settle();
    }
    world.model->release();
    const Reply reply = client.reply();
    std::size_t comments = 0, empty = 0;
    for (const auto& chunk : reply.chunks) {
      comments += chunk.starts_with(":") ? 1 : 0;
      empty += chunk.find("\"delta\":{},\"finish_reason\":null") != std::string::npos ? 1 : 0;
    }
    CHECK(empty == 0);
    CHECK(comments == (wish.find("style") != std::string::npos ? 0 : 1));
    CHECK(reply.events().back() == "[DONE]");
  }
}

TEST_CASE("a style of ping that there is not is refused") {
  World world;
  for (const char* wish : {R"("sse_ping_style":"loud")", R"("sse_ping_style":7)"}) {
    const Reply reply = world.chat(wish, true);
    CHECK(reply.status == 400);
    CHECK(reply.error_field("param") == "sse_ping_style");
  }
  world.model->script({.ids = plain_output("ok")});
  CHECK(world.chat(R"("sse_ping_style":null)", true).status == 200);
}

TEST_CASE("progress of the prompt comes without a choice, at most once a second") {
  TestClock clock;
  World world(timed(clock));
  world.model->script({.ids = plain_output("ok"), .pause = Phase::prefill, .reports = 5});
  Client client(world.server->port());
  client.send(request("POST", "/v1/chat/completions", chat_body(R"("return_progress":true)", true)));
  Reply reply;
  CHECK(client.head(reply) == 200);
  CHECK(client.chunk() == ": ping\n\n");
  CHECK(client.chunk().find("\"role\":\"assistant\"") != std::string::npos);
  const auto queued = event(client.chunk());
  CHECK(number(*queued.find("queue"), "position") == 0);
  CHECK(number(*queued.find("prompt_progress"), "processed") == 0);
  const auto total = number(*queued.find("prompt_progress"), "total");
  const auto next = [&] {
    const auto chunk = event(client.chunk());
    REQUIRE(chunk.find("choices") != nullptr);
    CHECK(chunk.find("choices")->items.empty());
    CHECK(chunk.find("queue") == nullptr);
    const json::Value* progress = chunk.find("prompt_progress");
    REQUIRE(progress != nullptr);
    CHECK(number(*progress, "total") == total);
    CHECK(number(*progress, "cache") == 0);
    return std::pair(number(*progress, "processed"), number(*progress, "time_ms"));
  };
  CHECK(next() == std::pair<std::int64_t, std::int64_t>(0, 0));
  CHECK(total == static_cast<std::int64_t>(world.model->last_job().prompt.size()));
  // Four reports within two seconds: the first comes too soon, the third too; the last one always comes.
  const auto step = [&](std::size_t pauses, std::chrono::milliseconds by) {
    world.model->wait_paused(pauses);
    clock.advance(*world.server, by);
    world.model->release();
    world.model->wait_paused(pauses + 1);
    world.settle();
  };
  step(1, 999ms);
  step(2, 1ms);
  CHECK(next() == std::pair(total * 2 / 5, std::int64_t{1000}));
  step(3, 999ms);
  step(4, 1ms);
  CHECK(next() == std::pair(total * 4 / 5, std::int64_t{2000}));
  world.model->wait_paused(5);
  world.model->release();
  CHECK(next() == std::pair(total, std::int64_t{2000}));
  for (std::string chunk = client.chunk(); !chunk.empty(); chunk = client.chunk())
    CHECK(chunk.find("prompt_progress") == std::string::npos);
}

TEST_CASE("who waits is told the place and, where anything was measured, when its turn comes") {
  TestClock clock;
  World world(timed(clock));
  const auto slow_answer = [&](Client& client) {
    world.model->script({.ids = {65, 65, 65, 65}, .pause = Phase::prefill, .pause_after = 1, .pause_each = true});
    client.send(request("POST", "/v1/completions", R"({"prompt":[7],"max_tokens":4,"stream":true,"return_progress":true})"));
    Reply reply;
    CHECK(client.head(reply) == 200);
    CHECK(client.chunk() == ": ping\n\n");
    CHECK(event(client.chunk()).find("queue") != nullptr);
    CHECK(event(client.chunk()).find("prompt_progress") != nullptr);
  };
  const auto waiting_hears = [&](const std::string& comment, std::int64_t turn_in_ms) {
    world.model->script({.ids = {65, 65, 65, 65}});
    Client quiet(world.server->port());
    quiet.send(post_text());
    Client curious(world.server->port());
    Reply reply;
    CHECK(quiet.head(reply) == 200);
    CHECK(quiet.chunk() == ": ping\n\n");
    curious.send(post_text(R"("return_progress":true)"));
    CHECK(curious.head(reply) == 200);
    CHECK(curious.chunk() == ": ping\n\n");
    const auto report = event(curious.chunk());
    CHECK(number(*report.find("queue"), "position") == 1);
    if (turn_in_ms < 0) {
      CHECK(report.find("queue")->find("turn_in_ms") == nullptr);
    } else {
      CHECK(number(*report.find("queue"), "turn_in_ms") == turn_in_ms);
    }
    clock.advance(*world.server, 10s);
    CHECK(quiet.chunk() == comment);
    CHECK(number(*event(curious.chunk()).find("queue"), "position") == 1);
  };
  Client first(world.server->port());
  slow_answer(first);
  world.model->wait_paused(1);
  // Ten seconds for the prompt's one token, which are those that the others wait; then four tokens, two seconds apart.
  waiting_hears(": queued position=0\n\n", -1);
  CHECK(first.chunk() == ": ping\n\n");
  world.model->release();
  CHECK(event(first.chunk()).find("prompt_progress") != nullptr);
  CHECK(event(first.chunk()).find("choices") != nullptr);
  for (std::size_t i = 2; i <= 4; ++i) {
    world.model->wait_paused(i);
    clock.advance(*world.server, 2s);
    world.model->release();
    CHECK(event(first.chunk()).find("choices")->items.size() == 1);
  }
  while (!first.chunk().empty()) {
  }
  // At that pace the running one needs 18 seconds, the first one that waits as many, and ten seconds later so many less.
  Client running(world.server->port());
  slow_answer(running);
  world.model->wait_paused(5);
  waiting_hears(": queued position=0 turn_in=8s\n\n", 36'000);
}

TEST_CASE("G8: a full queue tells when the running answer will have ended") {
  TestClock clock;
  World world(timed(clock));
  world.model->queue_capacity = 1;
  world.model->script({.ids = {65}, .pause = Phase::queued});
  Client waiting(world.server->port());
  waiting.send(post_text());
  world.model->wait_paused(1);
  const auto advice = [&] { return world.chat().headers.at("retry-after"); };
  // Nothing was measured yet: as long again as it has taken.
  clock.advance(*world.server, 42s);
  CHECK(advice() == "42");
  clock.advance(*world.server, 58s);
  CHECK(advice() == "100");
  clock.advance(*world.server, 10h);
  CHECK(advice() == "3600");
  world.model->release();
}
