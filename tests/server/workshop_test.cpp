// Large bodies are worked through beside the network thread: others go on meanwhile, and clients and servers may end at any moment.
#include <algorithm>

#include "tests/catch.hpp"
#include "tests/server/harness.hpp"

using namespace k3;
using namespace k3::test;
using namespace std::chrono_literals;

namespace {

// Holds the worker at the beginning of each large body, until it is let through or nobody waits for it any more.
class Gate {
 public:
  void pass(const std::stop_token& stop) {
    std::unique_lock lock(mutex_);
    ++entered_;
    changed_.notify_all();
    changed_.wait(lock, stop, [this] { return let_through_ > 0; });
    if (stop.stop_requested()) {
      ++stopped_;
    } else {
      --let_through_;
    }
    changed_.notify_all();
  }
  void open(std::size_t bodies = 1'000'000) {
    const std::lock_guard lock(mutex_);
    let_through_ += bodies;
    changed_.notify_all();
  }
  void wait_entered(std::size_t count) { await(entered_, count); }
  void wait_stopped(std::size_t count) { await(stopped_, count); }

 private:
  void await(const std::size_t& counter, std::size_t count) {
    std::unique_lock lock(mutex_);
    // Only a broken test ever waits this long.
    REQUIRE(changed_.wait_for(lock, 30s, [&] { return counter >= count; }));
  }

  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::size_t entered_ = 0, stopped_ = 0, let_through_ = 0;
};

constexpr std::size_t kInline = 2000;

server::ServerOptions gated(const std::shared_ptr<Gate>& gate) {
  server::ServerOptions options;
  options.limits.inline_body_bytes = kInline;
  options.before_large_body = [gate](const std::stop_token& stop) { gate->pass(stop); };
  return options;
}

std::string large_chat(std::size_t bytes = 2 * kInline, bool stream = false) {
  const std::string body = chat_body(R"("padding":"")", stream);
  return chat_body(R"("padding":")" + std::string(bytes - body.size(), 'x') + "\"", stream);
}

void send_chat(Client& client, const std::string& body) { client.send(request("POST", "/v1/chat/completions", body)); }

}  // namespace

TEST_CASE("others are served while a large body is worked through") {
  const auto gate = std::make_shared<Gate>();
  World world(gated(gate));
  world.model->script({.ids = plain_output("ok")});
  Client large(world.server->port());
  send_chat(large, large_chat());
  gate->wait_entered(1);
  for (const char* path : {"/health", "/livez", "/v1/models", "/"}) CHECK(world.get(path).status == 200);
  CHECK(world.chat().status == 200);
  CHECK(world.chat("", true).events().back() == "[DONE]");
  CHECK(world.post("/tokenize", R"({"content":"small"})").status == 200);
  gate->open();
  CHECK(large.reply().json().find("choices")->items[0].find("message")->find("content")->text == "ok");
  // The connection is as good as new.
  send_chat(large, large_chat(3 * kInline, true));
  CHECK(large.reply().events().back() == "[DONE]");
  large.send(request("GET", "/health"));
  CHECK(large.reply().status == 200);
}

TEST_CASE("a small body that asks for a form is worked through aside too: a schema can take long however short it is") {
  const auto gate = std::make_shared<Gate>();
  World world(gated(gate));
  world.model->script({.ids = plain_output("{}")});
  Client asking(world.server->port());
  send_chat(asking, chat_body(R"("response_format":{"type":"json_object"})"));
  gate->wait_entered(1);
  CHECK(world.get("/health").status == 200);
  CHECK(world.chat().status == 200);
  gate->open();
  CHECK(asking.reply().status == 200);
  CHECK(world.model->last_job().form.grammar != nullptr);
}

TEST_CASE("a large body is answered as a small one is, at every endpoint") {
  const auto gate = std::make_shared<Gate>();
  gate->open();
  World here;
  World aside(gated(gate));
  const std::string word(3 * kInline, 'w');
  const std::pair<const char*, std::string> cases[] = {
      {"/tokenize", R"({"content":")" + word + "\"}"},
      {"/detokenize", R"({"tokens":[65)" + std::string(kInline, ' ') + "]}"},
      {"/apply-template", R"({"messages":[{"role":"user","content":")" + word + "\"}]}"},
      {"/apply-template", R"({"messages":[{"role":"king","content":")" + word + "\"}]}"},
      {"/v1/completions", R"({"prompt":"x","n":2,"padding":")" + word + "\"}"},
      {"/v1/chat/completions", word},
  };
  for (const auto& [path, body] : cases) {
    INFO(path);
    const Reply expected = here.post(path, body);
    const Reply reply = aside.post(path, body);
    CHECK(reply.status == expected.status);
    CHECK(reply.body == expected.body);
  }
  gate->wait_entered(std::size(cases));
}

TEST_CASE("what fails on the worker is an answer, and the server lives on") {
  server::ServerOptions options;
  options.limits.inline_body_bytes = kInline;
  options.before_large_body = [](const std::stop_token&) { throw std::bad_alloc(); };
  World world(options);
  for (int i = 0; i < 2; ++i) {
    const Reply reply = world.post("/v1/chat/completions", large_chat());
    CHECK(reply.status == 500);
    CHECK(reply.error_field("code") == "internal_error");
  }
  world.model->script({.ids = plain_output("ok")});
  CHECK(world.chat().status == 200);
}

TEST_CASE("a client that leaves while its body is worked through never reaches the model") {
  const auto gate = std::make_shared<Gate>();
  World world(gated(gate));
  std::size_t entered = 0;
  for (const int how : {0, 1, 2}) {
    INFO(how);
    Client client(world.server->port());
    send_chat(client, large_chat(2 * kInline, how == 1));
    gate->wait_entered(++entered);
    Client waiting(world.server->port());
    send_chat(waiting, large_chat());
    if (how == 0) client.close();
    if (how == 1) client.reset();
    if (how == 2) client.half_close();
    // The worker learns of it, turns to the next body, and is left by that client too.
    gate->wait_stopped(entered);
    gate->wait_entered(++entered);
    waiting.close();
    gate->wait_stopped(entered);
    if (how == 2) CHECK(client.closed());
  }
  gate->open();
  world.model->script({.ids = plain_output("ok")});
  CHECK(world.post("/v1/chat/completions", large_chat()).status == 200);
  world.model->wait_submitted(1);
  CHECK(world.model->jobs_started() == 1);
}

TEST_CASE("a client that leaves just before its body is done never reaches the model") {
  const auto gate = std::make_shared<Gate>();
  // The worker does not look at the token, so it is done whether or not the server has noticed that the client left.
  server::ServerOptions options = gated(gate);
  options.before_large_body = [gate](const std::stop_token&) { gate->pass({}); };
  World world(options);
  for (std::size_t i = 1; i <= 50; ++i) {
    Client client(world.server->port());
    send_chat(client, large_chat());
    gate->wait_entered(i);
    if (i % 2 == 0) {
      client.reset();
    } else {
      client.close();
    }
    gate->open(1);
  }
  gate->open();
  world.model->script({.ids = plain_output("ok")});
  CHECK(world.post("/v1/chat/completions", large_chat()).status == 200);
  CHECK(world.model->jobs_started() == 1);
}

TEST_CASE("a drain lets a large body become an answer") {
  const auto gate = std::make_shared<Gate>();
  World world(gated(gate));
  world.model->script({.ids = plain_output("last words")});
  Client client(world.server->port());
  send_chat(client, large_chat());
  gate->wait_entered(1);
  world.server->drain(1h);
  CHECK(world.get("/readyz").status == 503);
  gate->open();
  CHECK(client.reply().status == 200);
  world.server->wait();
}

TEST_CASE("a drain's deadline ends what is worked through and what waits for it") {
  const auto gate = std::make_shared<Gate>();
  World world(gated(gate));
  Client first(world.server->port()), second(world.server->port());
  send_chat(first, large_chat());
  gate->wait_entered(1);
  send_chat(second, large_chat());
  // Comes after the second body on the server's thread, or close behind it: a request that is not whole yet is simply dropped.
  CHECK(world.get("/health").status == 200);
  world.server->drain(0ms);
  const Reply reply = first.reply();
  CHECK(reply.status == 503);
  CHECK(reply.error_field("code") == "shutting_down");
  CHECK(reply.headers.at("x-should-retry") == "false");
  Reply other;
  CHECK((second.head(other) == 503 || other.status == 0));
  world.server->wait();
  gate->wait_stopped(1);
}

TEST_CASE("a server may go away while a body is worked through") {
  const auto gate = std::make_shared<Gate>();
  World world(gated(gate));
  Client client(world.server->port());
  send_chat(client, large_chat());
  gate->wait_entered(1);
  world.server.reset();
  gate->wait_stopped(1);
}

TEST_CASE("a full workshop is 429 with advice, and small bodies are served all the same") {
  const auto gate = std::make_shared<Gate>();
  server::ServerOptions options = gated(gate);
  options.limits.workshop_bytes = 5 * kInline;
  World world(options);
  world.model->script({.ids = plain_output("ok")});
  Client first(world.server->port());
  send_chat(first, large_chat(2 * kInline));
  gate->wait_entered(1);
  const Reply full = world.post("/v1/chat/completions", large_chat(4 * kInline));
  CHECK(full.status == 429);
  CHECK(full.error_field("code") == "busy");
  CHECK(full.error_field("type") == "rate_limit_error");
  CHECK(std::stoi(full.headers.at("retry-after")) >= 1);
  CHECK(world.chat().status == 200);
  gate->open();
  CHECK(first.reply().status == 200);
  CHECK(world.post("/v1/chat/completions", large_chat(5 * kInline)).status == 200);
}

TEST_CASE("smaller bodies overtake larger ones that wait") {
  const auto gate = std::make_shared<Gate>();
  World world(gated(gate));
  world.model->script({.ids = plain_output("ok")});
  Client under_way(world.server->port());
  send_chat(under_way, large_chat(2 * kInline));
  gate->wait_entered(1);
  Client larger(world.server->port()), smaller(world.server->port());
  larger.send(request("POST", "/tokenize", R"({"content":"larger","padding":")" + std::string(9 * kInline, 'x') + "\"}"));
  smaller.send(request("POST", "/tokenize", R"({"content":"smaller","padding":")" + std::string(2 * kInline, 'x') + "\"}"));
  // Each is a turn of the server's thread, and a body of this size is read in a few of them.
  Client turns(world.server->port());
  for (int i = 0; i < 50; ++i) {
    turns.send(request("GET", "/health"));
    CHECK(turns.reply().status == 200);
  }
  gate->open(1);
  CHECK(under_way.reply().status == 200);
  gate->wait_entered(2);
  gate->open(1);
  CHECK(smaller.reply().status == 200);
  larger.close();
}
