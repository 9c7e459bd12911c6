#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "tests/catch.hpp"
#include "tests/server/harness.hpp"

using namespace k3;
using namespace k3::test;
using namespace std::chrono_literals;

TEST_CASE("a failure before the first token is a status when not streamed") {
  World world;
  world.model->script({.ids = plain_output("ok"), .fail_at = 0});
  const Reply reply = world.chat();
  CHECK(reply.status == 500);
  CHECK(reply.error_field("code") == "engine_failed");
  CHECK(reply.error_field("message") == "a read failed");
  CHECK(reply.headers.at("x-should-retry") == "false");
  world.model->script({.ids = plain_output("ok"), .fail_at = 3, .error = fail(ErrorCode::out_of_memory, "no memory")});
  CHECK(world.chat().status == 503);
}

TEST_CASE("a failure in the middle of a stream is an error event and no end") {
  World world;
  for (const std::size_t at : {0U, 1U, 9U}) {
    world.model->script({.ids = plain_output("one two three"), .fail_at = at});
    Client client(world.server->port());
    client.send(request("POST", "/v1/chat/completions", chat_body("", true)));
    const Reply reply = client.reply();
    CHECK(reply.status == 200);
    const auto events = reply.events();
    REQUIRE(!events.empty());
    const auto last = json::parse(events.back()).value();
    REQUIRE(last.find("error") != nullptr);
    CHECK(last.find("error")->find("message")->text == "a read failed");
    CHECK(last.find("error")->find("code")->text == "engine_failed");
    CHECK(reply.body.find("[DONE]") == std::string::npos);
    CHECK(reply.body.find("\"finish_reason\":\"") == std::string::npos);
    CHECK(client.closed());
  }
}

TEST_CASE("a full queue is 429 with advice") {
  World world;
  world.model->queue_capacity = 1;
  world.model->script({.ids = plain_output("ok"), .pause = Phase::queued});
  Client waiting(world.server->port());
  waiting.send(request("POST", "/v1/chat/completions", chat_body()));
  world.model->wait_paused(1);
  for (const bool stream : {false, true}) {
    const Reply full = world.chat("", stream);
    CHECK(full.status == 429);
    CHECK(full.error_field("code") == "queue_full");
    CHECK(full.error_field("type") == "rate_limit_error");
    CHECK(std::stoi(full.headers.at("retry-after")) >= 2);
  }
  world.model->release();
  CHECK(waiting.reply().status == 200);
}

TEST_CASE("G5: a drain lets answers finish and refuses new ones") {
  World world;
  world.model->script({.ids = plain_output("last words"), .pause = Phase::decode});
  Client streaming(world.server->port());
  streaming.send(request("POST", "/v1/chat/completions", chat_body("", true)));
  Client idle(world.server->port());
  idle.send(request("GET", "/health"));
  CHECK(idle.reply().status == 200);
  world.model->wait_paused(1);
  world.server->drain(1h);
  CHECK(world.get("/livez").status == 200);
  CHECK(world.get("/readyz").status == 503);
  CHECK(world.get("/health").body == R"({"status":"draining"})");
  const Reply refused = world.chat();
  CHECK(refused.status == 503);
  CHECK(refused.error_field("code") == "shutting_down");
  CHECK(refused.headers.contains("retry-after"));
  CHECK(refused.headers.at("x-should-retry") == "false");
  world.model->release();
  CHECK(streaming.reply().events().back() == "[DONE]");
  CHECK(idle.closed());
  world.server->wait();
}

TEST_CASE("G5: a drain's deadline ends what still runs, with an error event") {
  World world;
  world.model->script({.ids = plain_output("never"), .pause = Phase::decode});
  Client streaming(world.server->port());
  streaming.send(request("POST", "/v1/chat/completions", chat_body("", true)));
  world.model->wait_paused(1);
  Client whole(world.server->port());
  whole.send(request("POST", "/v1/chat/completions", chat_body()));
  world.model->wait_submitted(2);
  world.server->drain(10ms);
  const Reply reply = streaming.reply();
  CHECK(reply.events().back().find("shutting_down") != std::string::npos);
  CHECK(reply.body.find("[DONE]") == std::string::npos);
  const Reply other = whole.reply();
  CHECK(other.status == 503);
  CHECK(other.headers.at("x-should-retry") == "false");
  world.server->wait();
  world.model->wait_cancelled(1);
}

TEST_CASE("G5: who is half way through a request when a drain begins is told, and not cut off") {
  World world;
  world.model->script({.ids = plain_output("ok")});
  const std::string all = request("POST", "/v1/chat/completions", chat_body());
  const std::size_t head = all.find("\r\n\r\n") + 4;
  Client in_head(world.server->port()), in_body(world.server->port()), idle(world.server->port());
  in_head.send(std::string_view(all).substr(0, 20));
  in_body.send(std::string_view(all).substr(0, head + 5));
  // The three are there, and two of them in the middle of something.
  while (world.get("/metrics").body.find("k3_connections{state=\"reading\"} 2") == std::string::npos) std::this_thread::yield();
  world.server->drain(1h);
  CHECK(idle.closed());
  in_head.send(std::string_view(all).substr(20));
  const Reply refused = in_head.reply();
  CHECK(refused.status == 503);
  CHECK(refused.error_field("code") == "shutting_down");
  // This one's head had been taken: it is an answer under way.
  in_body.send(std::string_view(all).substr(head + 5));
  CHECK(in_body.reply().status == 200);
  world.server->wait();
  CHECK(world.model->jobs_started() == 1);
}

TEST_CASE("G5: advice to come again is made of what is known") {
  World world({}, false);
  const auto advice = [&] {
    const Reply reply = world.chat();
    CHECK(reply.status == 503);
    return reply.headers.at("retry-after");
  };
  CHECK(advice() == "10");
  world.server->set_load_left(std::chrono::minutes(7));
  CHECK(advice() == "420");
  world.server->set_load_left(std::chrono::seconds(0));
  CHECK(advice() == "1");
  world.give_model();
  world.model->script({.ids = plain_output("x"), .pause = Phase::decode});
  Client running(world.server->port());
  running.send(request("POST", "/v1/chat/completions", chat_body("", true)));
  world.model->wait_paused(1);
  world.server->drain(2h);
  const int left = std::stoi(advice());
  CHECK(left > 3600);
  CHECK(left <= 7200);
}

TEST_CASE("a server may go away with jobs in the model, and without ever having started") {
  {
    World world;
    world.model->script({.ids = plain_output("never"), .pause = Phase::decode});
    Client client(world.server->port());
    client.send(request("POST", "/v1/chat/completions", chat_body("", true)));
    world.model->wait_paused(1);
    world.server.reset();
    world.model->wait_cancelled(1);
  }
  server::ServerOptions options;
  options.port = 0;
  auto never_started = server::Server::bind(options);
  REQUIRE(never_started.has_value());
}

namespace {

// Serves until a signal, in a process of its own: the signal is for the process. No thread of the earlier cases is left when it
// forks. Sends `first` as soon as `handled` is handled, and returns the exit code.
int code_after(int first, int handled, void (*before)(int)) {
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    server::ServerOptions options;
    options.port = 0;
    auto server = server::Server::bind(options);
    if (!server) ::_exit(9);
    (*server)->start();
    // Catch has handlers of its own here, which would be taken for the server's.
    ::signal(handled, SIG_DFL);
    ::signal(first, before);
    std::thread killer([=] {
      struct sigaction action {};
      do {
        ::sigaction(handled, nullptr, &action);
        std::this_thread::yield();
      } while (action.sa_handler == SIG_DFL);
      ::kill(::getpid(), first);
      if (first != handled) ::kill(::getpid(), handled);
    });
    const int code = run_until_signal(**server);
    killer.join();
    ::_exit(code);
  }
  int status = -1;
  REQUIRE(::waitpid(child, &status, 0) == child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace

TEST_CASE("the first signal drains") {
  for (const int signal : {SIGTERM, SIGINT, SIGHUP}) {
    INFO(signal);
    CHECK(code_after(signal, signal, SIG_DFL) == 0);
  }
}

TEST_CASE("a hang-up that the process was told to ignore stays ignored") {
  // Taken for a signal to drain, it would give SIGTERM its default action back, which ends the process with 143.
  CHECK(code_after(SIGHUP, SIGTERM, SIG_IGN) == 0);
}
