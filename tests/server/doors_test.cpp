// Who may come in, and by which door.
#include <netinet/in.h>
#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <algorithm>
#include <thread>

#include "tests/catch.hpp"
#include "tests/server/harness.hpp"
#include "tests/server/temporary.hpp"

using namespace k3;
using namespace k3::test;
using namespace std::chrono_literals;

namespace {

// What is logged while this lives.
struct LogCapture {
  LogCapture() : before(spdlog::default_logger()) {
    spdlog::set_default_logger(std::make_shared<spdlog::logger>("", std::make_shared<spdlog::sinks::ostream_sink_mt>(text)));
  }
  ~LogCapture() { spdlog::set_default_logger(before); }
  std::ostringstream text;
  std::shared_ptr<spdlog::logger> before;
};

std::size_t count(const std::string& text, const std::string& word) {
  std::size_t found = 0;
  for (std::size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) ++found;
  return found;
}

Reply ask(World& world, std::string_view method, std::string_view path, std::string_view headers, std::string_view body = "") {
  Client client(world.server->port());
  client.send(request(method, path, body, headers));
  return client.reply(method == "HEAD");
}

const std::string kPage = "https://app.example";
const std::string kOrigin = "Origin: " + kPage + "\r\n";

}  // namespace

TEST_CASE("keys have names, and a key file that is wrong is refused without its text") {
  const TemporaryFolder folder;
  server::ServerOptions options;
  options.port = 0;
  options.api_key_file = folder.write("keys", "# people\n  alice:secret-a  # her laptop\nbob : secret:b\n\nsecret-c\r\n");
  {
    World world(options);
    const auto status = [&](const std::string& key) { return ask(world, "GET", "/v1/models", key + "\r\n").status; };
    CHECK(status("Authorization: Bearer secret-a") == 200);
    CHECK(status("Authorization: Bearer  secret:b ") == 200);
    CHECK(status("x-api-key: secret-c") == 200);
    CHECK(status("x-api-key: alice:secret-a") == 401);
    CHECK(status("x-api-key: alice") == 401);
    CHECK(status("Authorization: Basic secret-a") == 401);
    // One that is wrong is not made right by another field.
    CHECK(status("x-api-key: secret-a\r\nAuthorization: Bearer wrong") == 401);
  }
  for (const std::string text : {"a:b:\tc d\n", "alice:\n", ":key\n", "na/me:key\n", "alice:secret\nalice:secrets\n",
                                 "a:kl\xc3\xa4r-text\n", "alice:the-same\nbob:the-same\n"}) {
    INFO(text);
    options.api_key_file = folder.write("wrong", text);
    const auto server = server::Server::bind(options);
    REQUIRE(server.has_error());
    CHECK(server.error().code == ErrorCode::invalid_argument);
    CHECK(server.error().describe().find("line ") != std::string::npos);
    CHECK(server.error().message.find("alice") == std::string::npos);
  }
}

TEST_CASE("a key file that others can read is warned of") {
  const TemporaryFolder folder;
  server::ServerOptions options;
  options.port = 0;
  options.api_key_file = folder.write("keys", "secret\n");
  LogCapture log;
  REQUIRE(server::Server::bind(options).has_value());
  CHECK(log.text.str().empty());
  std::filesystem::permissions(options.api_key_file, std::filesystem::perms::others_read, std::filesystem::perm_options::add);
  REQUIRE(server::Server::bind(options).has_value());
  CHECK(log.text.str().find("chmod 600") != std::string::npos);
  CHECK(log.text.str().find("secret") == std::string::npos);
}

TEST_CASE("G1: a preflight needs no key and allows what clients send") {
  const TemporaryFolder folder;
  server::ServerOptions options;
  options.api_key_file = folder.write("keys", "secret\n");
  options.cors_origins = {"https://App.example"};
  World world(options);
  const Reply reply =
      ask(world, "OPTIONS", "/v1/chat/completions",
          kOrigin +
              "Access-Control-Request-Method: POST\r\nAccess-Control-Request-Private-Network: true\r\n"
              "Access-Control-Request-Headers: authorization,X-Stainless-Os, x-stainless-lang,x-evil,x-stainless-a:b\r\n");
  CHECK(reply.status == 204);
  CHECK(reply.headers.at("access-control-allow-origin") == kPage);
  CHECK(reply.headers.at("vary") == "Origin");
  CHECK(reply.headers.at("access-control-allow-methods").find("POST") != std::string::npos);
  CHECK(reply.headers.at("access-control-allow-private-network") == "true");
  const std::string allowed = reply.headers.at("access-control-allow-headers") + ",";
  for (const char* name : {"authorization", "content-type", "x-api-key", "anthropic-version",
                           "anthropic-dangerous-direct-browser-access", "x-stainless-os", "x-stainless-lang"}) {
    INFO(name);
    CHECK(allowed.find(std::string(name) + ",") != std::string::npos);
  }
  CHECK(allowed.find("evil") == std::string::npos);
  CHECK(allowed.find(':') == std::string::npos);
  const Reply foreign = ask(world, "OPTIONS", "/v1/chat/completions", "Origin: https://evil.example\r\n");
  CHECK(foreign.status == 403);
  CHECK(!foreign.headers.contains("access-control-allow-origin"));
}

TEST_CASE("G2: every response to a page of an allowed origin may be read by it: errors and streams too") {
  const TemporaryFolder folder;
  server::ServerOptions options;
  options.api_key_file = folder.write("keys", "secret\n");
  options.cors_origins = {kPage};
  World world(options);
  world.model->script({.ids = plain_output("ok")});
  const std::string key = kOrigin + "x-api-key: secret\r\n";
  const auto readable = [](const Reply& reply, int status) {
    CHECK(reply.status == status);
    INFO(status);
    REQUIRE(reply.headers.contains("access-control-allow-origin"));
    CHECK(reply.headers.at("access-control-allow-origin") == kPage);
    CHECK(reply.headers.at("access-control-expose-headers").find("Retry-After") != std::string::npos);
  };
  readable(ask(world, "GET", "/health", kOrigin), 200);
  readable(ask(world, "GET", "/v1/models", kOrigin), 401);
  readable(ask(world, "GET", "/nowhere", key), 404);
  readable(ask(world, "GET", "/tokenize", key), 405);
  readable(ask(world, "POST", "/tokenize", key + "Content-Encoding: gzip\r\n", "x"), 415);
  readable(ask(world, "POST", "/v1/chat/completions", key, "{"), 400);
  readable(ask(world, "POST", "/v1/chat/completions", key, chat_body()), 200);
  const Reply stream = ask(world, "POST", "/v1/chat/completions", key, chat_body("", true));
  readable(stream, 200);
  CHECK(stream.events().back() == "[DONE]");
  // Without the list, or without an Origin, nothing of this is said.
  CHECK(!ask(world, "GET", "/health", "").headers.contains("access-control-allow-origin"));
  for (const char* origin : {"https://app.example.evil", "http://app.example", "https://app.example:444", "null"})
    CHECK(ask(world, "GET", "/health", "Origin: " + std::string(origin) + "\r\n").status == 403);
}

TEST_CASE("a host that no request can name is refused at the start") {
  server::ServerOptions options;
  options.port = 0;
  for (const std::string wrong : {"", "a/b", "http://a", "a:80", "a b", "[::1", "[]", "a,b", "a@b", "*"}) {
    INFO(wrong);
    options.allowed_hosts = {wrong};
    const auto server = server::Server::bind(options);
    REQUIRE(server.has_error());
    CHECK(server.error().code == ErrorCode::invalid_argument);
    CHECK(server.error().got == wrong);
  }
  for (const std::string good : {"k3.example", "MACHINE_1", "10.0.0.1", "[fe80::1]"}) {
    options.allowed_hosts = {good};
    World world(options);
    Client client(world.server->port());
    client.send("GET /livez HTTP/1.1\r\nHost: " + good + ":123\r\n\r\n");
    CHECK(client.reply().status == 200);
  }
}

TEST_CASE("origins are checked at the start, and all of them takes a key") {
  const TemporaryFolder folder;
  server::ServerOptions options;
  options.port = 0;
  for (const char* wrong : {"*", "app.example", "https://", "https://app.example/", "https://a b"}) {
    INFO(wrong);
    options.cors_origins = {wrong};
    CHECK(server::Server::bind(options).error().code == ErrorCode::invalid_argument);
  }
  options.cors_origins = {"*"};
  options.api_key_file = folder.write("keys", "secret\n");
  World world(options);
  const Reply reply = ask(world, "GET", "/v1/models", "Origin: https://any.example\r\nx-api-key: secret\r\n");
  CHECK(reply.status == 200);
  CHECK(reply.headers.at("access-control-allow-origin") == "*");
}

TEST_CASE("a Unix socket is its owner's, and goes away with the server") {
  const TemporaryFolder folder;
  server::ServerOptions options;
  options.unix_socket = folder.path / "k3.sock";
  options.limits.connections_per_address = 1;
  {
    World world(options);
    world.model->script({.ids = plain_output("ok")});
    struct stat status {};
    REQUIRE(::lstat(options.unix_socket.c_str(), &status) == 0);
    CHECK((status.st_mode & 0777) == 0600);
    Client by_port(world.server->port());
    by_port.send(request("GET", "/health"));
    CHECK(by_port.reply().status == 200);
    // As many as they like, while the network's one place is taken.
    std::vector<std::unique_ptr<Client>> clients;
    for (int i = 0; i < 5; ++i) {
      clients.push_back(std::make_unique<Client>(options.unix_socket.string()));
      clients.back()->send(request("POST", "/v1/chat/completions", chat_body("", true)));
      CHECK(clients.back()->reply().events().back() == "[DONE]");
    }
    server::ServerOptions second = options;
    second.port = 0;
    const auto taken = server::Server::bind(second);
    REQUIRE(taken.has_error());
    CHECK(taken.error().message.find("another process listens there") != std::string::npos);
    CHECK(std::filesystem::exists(options.unix_socket));
  }
  CHECK(!std::filesystem::exists(options.unix_socket));
}

TEST_CASE("a socket file left behind is replaced, and nothing else is") {
  const TemporaryFolder folder;
  server::ServerOptions options;
  options.tcp = false;
  options.unix_socket = folder.path / "k3.sock";
  // A process that was killed leaves this.
  const int left = ::socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
  options.unix_socket.string().copy(address.sun_path, sizeof address.sun_path - 1);
  REQUIRE(::bind(left, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0);
  ::close(left);
  {
    World world(options);
    CHECK(world.server->url() == "unix:" + options.unix_socket.string());
    Client client(options.unix_socket.string());
    client.send(request("GET", "/health"));
    CHECK(client.reply().status == 200);
    // Somebody else's by now: not ours to take away.
    std::filesystem::remove(options.unix_socket);
    folder.write("k3.sock", "precious");
  }
  CHECK(contents(options.unix_socket) == "precious");
  CHECK(server::Server::bind(options).error().message.find("no socket") != std::string::npos);
  CHECK(contents(options.unix_socket) == "precious");
  options.unix_socket = folder.path / std::string(200, 'x');
  CHECK(server::Server::bind(options).error().code == ErrorCode::invalid_argument);
  options.unix_socket = folder.path / "nowhere" / "k3.sock";
  CHECK(server::Server::bind(options).error().code == ErrorCode::io);
}

TEST_CASE("connections are bounded in all, and the Unix socket stays open to its owner") {
  const TemporaryFolder folder;
  server::ServerOptions options;
  options.unix_socket = folder.path / "k3.sock";
  options.limits.connections = 3;
  options.limits.connections_per_address = 3;
  World world(options);
  std::vector<std::unique_ptr<Client>> crowd;
  for (int i = 0; i < 3; ++i) {
    crowd.push_back(std::make_unique<Client>(world.server->port()));
    crowd.back()->send(request("GET", "/health"));
    CHECK(crowd.back()->reply().status == 200);
  }
  // The refusal must survive the request that nobody reads.
  for (int i = 0; i < 20; ++i) {
    Client refused(world.server->port());
    refused.try_send(request("GET", "/health") + std::string(10'000, 'x'));
    const Reply reply = refused.reply();
    REQUIRE(reply.status == 503);
    CHECK(reply.error_field("code") == "too_many_connections");
    CHECK(reply.headers.at("retry-after") == "5");
  }
  Client owner(options.unix_socket.string());
  owner.send(request("GET", "/metrics"));
  CHECK(owner.reply().body.find("k3_connections_refused_total 20\n") != std::string::npos);
  std::vector<std::unique_ptr<Client>> local;
  for (int i = 0; i < 3; ++i) {
    local.push_back(std::make_unique<Client>(options.unix_socket.string()));
    local.back()->send(request("GET", "/health"));
    CHECK(local.back()->reply().status == (i < 2 ? 200 : 503));
  }
}

TEST_CASE("A12: a client that has shut its sending side is answered, where that is asked for") {
  server::ServerOptions options;
  options.half_close = true;
  World world(options);
  std::size_t paused = 0;
  for (const bool stream : {false, true}) {
    for (const Phase phase : {Phase::queued, Phase::prefill, Phase::decode}) {
      INFO(stream << " " << static_cast<int>(phase));
      world.model->script({.ids = plain_output("still listening"), .pause = phase});
      Client client(world.server->port());
      client.send(request("POST", "/v1/chat/completions", chat_body("", stream)));
      world.model->wait_paused(++paused);
      client.half_close();
      // A round trip through the same thread: by then it has seen the end of what the client sends.
      for (int i = 0; i < 3; ++i) CHECK(world.get("/health").status == 200);
      world.model->release();
      const Reply reply = client.reply();
      CHECK(reply.complete);
      CHECK(reply.body.find(stream ? "[DONE]" : "still listening") != std::string::npos);
      CHECK(client.closed());
    }
  }
  world.model->script({.ids = plain_output("x"), .pause = Phase::decode});
  Client gone(world.server->port());
  gone.send(request("POST", "/v1/chat/completions", chat_body("", true)));
  world.model->wait_paused(++paused);
  gone.reset();
  world.model->wait_cancelled(1);
}

TEST_CASE("without descriptors the server waits, says so once, and goes on") {
  LogCapture log;
  World world;
  CHECK(world.get("/health").status == 200);
  rlimit before{};
  REQUIRE(::getrlimit(RLIMIT_NOFILE, &before) == 0);
  {
    // The clients' own sockets exist already: what is short is the server's end of them.
    std::vector<int> ours;
    for (int i = 0; i < 4; ++i) ours.push_back(::socket(AF_INET, SOCK_STREAM, 0));
    const rlimit none{.rlim_cur = static_cast<rlim_t>(*std::max_element(ours.begin(), ours.end())) + 1,
                      .rlim_max = before.rlim_max};
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(world.server->port());
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    std::vector<int> fillers;
    REQUIRE(::setrlimit(RLIMIT_NOFILE, &none) == 0);
    for (int filler = ::dup(ours[0]); filler >= 0; filler = ::dup(ours[0])) fillers.push_back(filler);
    for (const int socket : ours) REQUIRE(::connect(socket, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0);
    // Several of its pauses: a log that grows with each would show.
    std::this_thread::sleep_for(450ms);
    REQUIRE(::setrlimit(RLIMIT_NOFILE, &before) == 0);
    const std::string health = request("GET", "/health");
    for (const int socket : ours) {
      char answer[12] = {};
      CHECK(::send(socket, health.data(), health.size(), MSG_NOSIGNAL) > 0);
      CHECK(::recv(socket, answer, sizeof answer, MSG_WAITALL) == 12);
      CHECK(std::string(answer, 12) == "HTTP/1.1 200");
      ::close(socket);
    }
    for (const int filler : fillers) ::close(filler);
  }
  world.server.reset();
  CHECK(count(log.text.str(), "cannot accept") == 1);
  CHECK(count(log.text.str(), "accepted again") == 1);
}

TEST_CASE("one key cannot fill the queue that others wait in") {
  const TemporaryFolder folder;
  server::ServerOptions options;
  options.port = 0;
  options.api_key_file = folder.write("keys", "alice:secret-a\nbob:secret-b\n");
  options.limits.answers_per_key = 2;
  World world(options);
  world.model->script({.ids = {65}, .pause = Phase::queued});
  const auto send = [&](const std::string& key, const std::string& name) {
    auto client = std::make_unique<Client>(world.server->port());
    client->send(request("POST", "/v1/completions", R"({"prompt":[7],"max_tokens":1,"stream":true})",
                         "Authorization: Bearer " + key + "\r\nIdempotency-Key: " + name + "\r\n"));
    return client;
  };
  const auto status = [](Client& client) {
    Reply reply;
    return client.head(reply);
  };
  const auto first = send("secret-a", "1"), second = send("secret-a", "2");
  CHECK(status(*first) == 200);
  CHECK(status(*second) == 200);
  const Reply refused = send("secret-a", "3")->reply();
  CHECK(refused.status == 429);
  CHECK(refused.error_field("code") == "key_limit");
  CHECK(std::stoi(refused.headers.at("retry-after")) >= 2);
  const auto again = send("secret-a", "2"), other = send("secret-b", "1");
  CHECK(status(*again) == 200);  // it joins, and adds no work
  CHECK(status(*other) == 200);
  second->close();
  again->close();
  // The server notices in its own time.
  int got = 429;
  for (int tries = 0; got == 429 && tries < 1000; ++tries) {
    std::this_thread::sleep_for(5ms);
    got = status(*send("secret-a", "4"));
  }
  CHECK(got == 200);
  world.model->release();
}
