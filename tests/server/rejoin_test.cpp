// The same request, sent again: it joins the run that is still going.
#include "tests/catch.hpp"
#include "tests/server/prometheus.hpp"
#include "tests/server/timed_answers.hpp"

using namespace k3;
using namespace k3::test;
using namespace std::chrono_literals;

namespace {

const std::string kFirst = "X-Stainless-Lang: js\r\nX-Stainless-Retry-Count: 0\r\n";
const std::string kAgain = "X-Stainless-Lang: js\r\nX-Stainless-Retry-Count: 1\r\n";

std::string ask(bool stream, const std::string& headers, std::string_view extra = "") {
  return request("POST", "/v1/chat/completions", chat_body(extra, stream), headers);
}

// The server has noticed that nobody is there any more.
void wait_until_nobody(World& world) {
  for (;;) {
    const Scrape now = read_metrics(world.get("/metrics").body);
    if (now.at(R"(k3_requests_in_state{state="queued"})") + now.at(R"(k3_requests_in_state{state="prefill"})") +
            now.at(R"(k3_requests_in_state{state="decode"})") ==
        0)
      return;
  }
}

// Taken in, and not refused.
void await_head(Client& client, bool stream) {
  if (!stream) return;
  Reply reply;
  CHECK(client.head(reply) == 200);
}

std::string rest(Client& client) {
  std::string all;
  for (std::string chunk = client.chunk(); !chunk.empty(); chunk = client.chunk()) {
    if (!chunk.starts_with(":")) all += chunk;
  }
  return all;
}

std::string content_of(const std::string& body) {
  return json::parse(body).value().find("choices")->items[0].find("message")->find("content")->text;
}

}  // namespace

TEST_CASE("a request sent again joins the run and hears all of it") {
  World world;
  std::size_t paused = 0, jobs = 0;
  for (const std::string& again : {kAgain, std::string("Idempotency-Key: abc\r\n")}) {
    const std::string first_headers = again == kAgain ? kFirst : again;
    for (const bool stream : {false, true}) {
      for (const Phase phase : {Phase::queued, Phase::prefill, Phase::decode}) {
        INFO(again << " stream " << stream << " phase " << static_cast<int>(phase));
        world.model->script({.ids = plain_output("one two three"), .pause = phase, .pause_after = 9});
        Client first(world.server->port());
        first.send(ask(stream, first_headers));
        world.model->wait_paused(++paused);
        Client second(world.server->port());
        second.send(ask(stream, again));
        await_head(first, stream);
        Reply reply;
        if (stream) {
          CHECK(second.head(reply) == 200);
          CHECK(reply.headers.at("x-k3-joined") == "true");
        }
        world.settle();
        world.model->release();
        if (stream) {
          const std::string all = rest(first);
          CHECK(all.find("[DONE]") != std::string::npos);
          CHECK(rest(second) == all);
        } else {
          const Reply one = first.reply(), two = second.reply();
          CHECK(one.status == 200);
          CHECK(content_of(one.body) == "one two three");
          CHECK(two.body == one.body);
          CHECK(!one.headers.contains("x-k3-joined"));
          CHECK(two.headers.at("x-k3-joined") == "true");
        }
        CHECK(world.model->jobs_started() == ++jobs);
      }
    }
  }
}

TEST_CASE("only the last of them to leave ends the run") {
  World world;
  std::size_t paused = 0;
  for (const bool stream : {false, true}) {
    for (const bool first_leaves : {false, true}) {
      world.model->script({.ids = plain_output("one two three"), .pause = Phase::decode});
      Client first(world.server->port());
      first.send(ask(stream, kFirst));
      world.model->wait_paused(++paused);
      Client second(world.server->port());
      second.send(ask(stream, kAgain));
      await_head(second, stream);
      world.settle();
      Client& stays = first_leaves ? second : first;
      (first_leaves ? first : second).close();
      await_head(first, stream && !first_leaves);
      world.settle();
      world.model->release();
      if (stream) {
        CHECK(rest(stays).find("[DONE]") != std::string::npos);
      } else {
        CHECK(content_of(stays.reply().body) == "one two three");
      }
    }
  }
  CHECK(world.model->jobs_started() == 2 * 2);
  // And where both go, it does end.
  TestClock clock;
  World timed_world(timed(clock));
  timed_world.model->script({.ids = plain_output("x"), .endless = true, .pause = Phase::decode});
  {
    Client first(timed_world.server->port()), second(timed_world.server->port());
    first.send(ask(true, kFirst));
    timed_world.model->wait_paused(1);
    second.send(ask(true, kAgain));
    await_head(second, true);
  }
  wait_until_nobody(timed_world);
  clock.advance(*timed_world.server, 5s);
  timed_world.model->wait_cancelled(1);
}

TEST_CASE("an SDK that lost patience finds its run for a few seconds after it left") {
  TestClock clock;
  World world(timed(clock));
  std::size_t paused = 0;
  for (const bool stream : {false, true}) {
    for (const bool ends_meanwhile : {false, true}) {
      INFO("stream " << stream << " ends meanwhile " << ends_meanwhile);
      world.model->script({.ids = plain_output("one two three"), .pause = Phase::decode});
      {
        Client first(world.server->port());
        first.send(ask(stream, kFirst));
        world.model->wait_paused(++paused);
        await_head(first, stream);
      }
      wait_until_nobody(world);
      if (ends_meanwhile) {
        world.model->release();
        world.model->wait_ended(paused);
      }
      clock.advance(*world.server, 4'999ms);
      world.settle();
      Client second(world.server->port());
      second.send(ask(stream, kAgain));
      await_head(second, stream);
      world.settle();
      // It has come back: the grace is over, and nothing of it left.
      clock.advance(*world.server, 1h);
      world.settle();
      if (!ends_meanwhile) world.model->release();
      if (stream) {
        CHECK(rest(second).find("[DONE]") != std::string::npos);
      } else {
        Reply reply;
        if (!ends_meanwhile) {
          CHECK(second.head(reply) == 200);  // an hour is more than the status is held for
          CHECK(content_of(rest(second)) == "one two three");
        } else {
          CHECK(content_of(second.reply().body) == "one two three");
        }
      }
      CHECK(world.model->jobs_started() == paused);
    }
  }
}

TEST_CASE("after the grace the run is withdrawn, and what is sent again is a new one") {
  TestClock clock;
  World world(timed(clock));
  world.model->script({.ids = plain_output("x"), .endless = true, .pause = Phase::decode});
  {
    Client first(world.server->port());
    first.send(ask(true, kFirst));
    world.model->wait_paused(1);
  }
  wait_until_nobody(world);
  clock.advance(*world.server, 5s);
  world.model->wait_cancelled(1);
  world.model->script({.ids = plain_output("ok")});
  Client second(world.server->port());
  second.send(ask(false, kAgain));
  const Reply reply = second.reply();
  CHECK(content_of(reply.body) == "ok");
  CHECK(!reply.headers.contains("x-k3-joined"));
}

TEST_CASE("nobody waits for a client that will not send again") {
  TestClock clock;
  World world(timed(clock));
  std::size_t paused = 0;
  for (const std::string headers : {"", "Idempotency-Key: abc\r\n"}) {
    for (const bool stream : {false, true}) {
      world.model->script({.ids = plain_output("x"), .endless = true, .pause = Phase::decode});
      {
        Client first(world.server->port());
        first.send(ask(stream, headers));
        world.model->wait_paused(++paused);
      }
      world.model->wait_cancelled(paused);
    }
  }
}

TEST_CASE("a request that differs, or does not say that it is sent again, has a run of its own") {
  World world;
  world.model->queue_capacity = 20;
  world.model->script({.ids = plain_output("x"), .pause = Phase::decode});
  Client first(world.server->port());
  first.send(ask(true, kFirst + "Authorization: Bearer a\r\n"));
  world.model->wait_paused(1);
  const std::string same = chat_body("", true);
  const std::string others[] = {
      ask(true, kFirst + "Authorization: Bearer a\r\n"),                                      // says that it is the first
      ask(true, kAgain + "Authorization: Bearer b\r\n"),                                      // somebody else
      ask(true, kAgain + "x-api-key: a\r\n"),                                                 // another field
      ask(true, kAgain),                                                                      // nobody
      ask(true, kAgain + "Authorization: Bearer a\r\nIdempotency-Key: abc\r\n"),              // has a name that the first has not
      ask(true, "X-Stainless-Retry-Count: 2\r\nAuthorization: Bearer a\r\n", R"("seed":1)"),  // another body
      request("POST", "/v1/completions", R"({"prompt":"x","stream":true})", kAgain + "Authorization: Bearer a\r\n"),
  };
  std::vector<std::unique_ptr<Client>> clients;
  for (const auto& text : others) {
    clients.push_back(std::make_unique<Client>(world.server->port()));
    clients.back()->send(text);
    Reply reply;
    CHECK(clients.back()->head(reply) == 200);
    CHECK(!reply.headers.contains("x-k3-joined"));
  }
  Client same_again(world.server->port());
  same_again.send(ask(true, kAgain + "Authorization: Bearer a\r\n"));
  Reply reply;
  CHECK(same_again.head(reply) == 200);
  CHECK(reply.headers.at("x-k3-joined") == "true");
  world.model->wait_submitted(8);
  world.model->script({.ids = plain_output("x")});
}

TEST_CASE("a full queue has room for who is in it already") {
  World world;
  world.model->queue_capacity = 1;
  world.model->script({.ids = plain_output("ok"), .pause = Phase::queued});
  Client first(world.server->port());
  first.send(ask(false, kFirst));
  world.model->wait_paused(1);
  CHECK(world.chat().status == 429);
  Client second(world.server->port());
  second.send(ask(false, kAgain));
  world.settle();
  world.model->release();
  CHECK(content_of(second.reply().body) == "ok");
  CHECK(content_of(first.reply().body) == "ok");
}

TEST_CASE("a stop string ends it for all, also for who is behind") {
  TestClock clock;
  World world(timed(clock));
  world.model->script({.ids = plain_output("alpha beta gamma delta"), .pause = Phase::decode, .pause_after = 9});
  Client first(world.server->port());
  first.send(ask(false, kFirst, R"("stop":" gam")"));
  world.model->wait_paused(1);
  Client second(world.server->port());
  second.send(ask(false, kAgain, R"("stop":" gam")"));
  world.settle();
  world.model->release();
  CHECK(content_of(first.reply().body) == "alpha beta");
  CHECK(content_of(second.reply().body) == "alpha beta");
}

TEST_CASE("a run that has said more than is kept is joined no more") {
  TestClock clock;
  for (const bool long_one : {false, true}) {
    server::ServerOptions options = timed(clock);
    options.limits.ticket_events = 64;
    options.limits.replay_events = 64;
    World world(options);
    world.model->script({.ids = {65}, .endless = true, .pause = Phase::decode, .pause_after = 40, .pause_each = true});
    const std::string body = R"({"prompt":"x","max_tokens":100,"stream":true})";
    Client first(world.server->port());
    first.send(request("POST", "/v1/completions", body, kFirst));
    Reply reply;
    CHECK(first.head(reply) == 200);
    CHECK(first.chunk() == ": ping\n\n");
    const auto hear = [&](std::size_t count) {
      for (std::size_t i = 0; i < count; ++i) CHECK(first.chunk().starts_with("data: "));
    };
    hear(40);
    for (std::size_t i = 1; long_one && i <= 40; ++i) {
      world.model->wait_paused(i);
      world.model->release();
      hear(1);
    }
    Client second(world.server->port());
    second.send(request("POST", "/v1/completions", body, kAgain));
    CHECK(second.head(reply) == 200);
    CHECK(reply.headers.contains("x-k3-joined") == !long_one);
  }
}

TEST_CASE("a run that has failed is not joined") {
  TestClock clock;
  World world(timed(clock));
  world.model->script({.ids = plain_output("x"), .pause = Phase::decode, .fail_at = 3});
  {
    Client first(world.server->port());
    first.send(ask(false, kFirst));
    world.model->wait_paused(1);
  }
  wait_until_nobody(world);
  world.model->release();
  world.model->wait_ended(1);
  world.settle();
  world.model->script({.ids = plain_output("ok")});
  Client second(world.server->port());
  second.send(ask(false, kAgain));
  CHECK(content_of(second.reply().body) == "ok");
}

TEST_CASE("a drain waits for nobody who has left") {
  TestClock clock;
  World world(timed(clock));
  world.model->script({.ids = plain_output("x"), .endless = true, .pause = Phase::decode});
  {
    Client first(world.server->port());
    first.send(ask(true, kFirst));
    world.model->wait_paused(1);
  }
  wait_until_nobody(world);
  world.server->drain(1h);
  world.server->wait();
  world.model->wait_cancelled(1);
}
