// E21, E22, E18: bytes on the wire, however they are cut, and what follows a refusal.
#include <algorithm>

#include "tests/catch.hpp"
#include "tests/server/harness.hpp"

using namespace k3;
using namespace k3::test;
using namespace std::chrono_literals;

namespace {

const std::string kTokenize = R"({"content":"x y"})";

std::string chunked(const std::string& chunks, const std::string& fields = "") {
  return "POST /tokenize HTTP/1.1\r\nHost: localhost\r\n" + fields + "Transfer-Encoding: chunked\r\n\r\n" + chunks;
}

std::vector<int> statuses(World& world, std::string_view bytes) {
  Client client(world.server->port());
  client.try_send(bytes);
  client.half_close();
  std::vector<int> result;
  for (;;) {
    const Reply reply = client.reply();
    if (reply.status == 0) return result;
    result.push_back(reply.status);
    if (reply.status >= 400) {
      INFO(reply.body);
      // Every error, whoever found it, in OpenAI's shape.
      CHECK(!reply.error_field("message").empty());
      CHECK(!reply.error_field("type").empty());
      CHECK(reply.error_field("code") != "null");
      CHECK(reply.json().find("error")->find("param") != nullptr);
    }
  }
}

}  // namespace

TEST_CASE("E21: requests are the same however their bytes are cut") {
  World world;
  world.model->script({.ids = plain_output("ok")});
  const std::vector<std::string> cases{
      "\r\n" + request("GET", "/health"),
      request("POST", "/tokenize", kTokenize) + "\r\n" + request("GET", "/livez"),
      request("POST", "/tokenize", kTokenize) + request("POST", "/tokenize", kTokenize) + request("GET", "/nowhere"),
      chunked("11\r\n" + kTokenize + "\r\n0\r\n\r\n") + request("GET", "/health"),
      chunked("1;a=\"b\"\r\n{\r\n10;c\r\n" + kTokenize.substr(1) + "\r\n000;d\r\nX-Trailer: 1\r\nContent-MD5: x\r\n\r\n") +
          request("GET", "/health"),
      "GET http://localhost/health?x=1 HTTP/1.1\r\nHost: elsewhere\r\n\r\n",
      "OPTIONS * HTTP/1.1\r\nHost: localhost\r\n\r\n" + request("GET", "/health"),
      "GET /health HTTP/1.0\r\n\r\n",
      "GET /health HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nGET / HTTP/1.1\r\n\r\n",
      chunked("5\r\nhellooo\r\n0\r\n\r\n") + request("GET", "/health"),
      request("DELETE", "/health") + request("GET", "/health"),
  };
  for (const auto& bytes : cases) {
    INFO(bytes);
    const auto whole = statuses(world, bytes);
    REQUIRE(!whole.empty());
    for (std::size_t cut = 1; cut < bytes.size(); ++cut) {
      Client client(world.server->port());
      client.try_send(std::string_view(bytes).substr(0, cut));
      // A round trip through the server's one thread: the first part has been read by then.
      REQUIRE(world.get("/livez").status == 200);
      client.try_send(std::string_view(bytes).substr(cut));
      client.half_close();
      INFO(cut);
      for (const int status : whole) REQUIRE(client.reply().status == status);
      REQUIRE(client.everything().empty());
    }
  }
}

TEST_CASE("E21: which of these are answered, and with what") {
  server::ServerOptions options;
  options.limits.body_bytes = 40'000;
  options.limits.bodies_bytes = 200'000;
  World world(options);
  const std::string next = request("GET", "/health");
  const auto field = [](const std::string& line) { return "GET /health HTTP/1.1\r\nHost: localhost\r\n" + line + "\r\n\r\n"; };
  const std::vector<std::pair<std::string, std::vector<int>>> cases{
      {"\r\n" + next, {200}},
      {"\r\n\r\n" + next, {400}},
      {"\r" + next, {400}},
      {"\n" + next, {400}},
      {next + "\r\n" + next + "\r\n", {200, 200}},
      {"\r\n", {}},
      // Two ways to say where a body ends are one too many; what follows is nobody's request.
      {field("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked") + "0\r\n\r\n" + next, {400}},
      {field("Transfer-Encoding: chunked\r\nTransfer-Encoding: identity") + "0\r\n\r\n" + next, {400}},
      {field("Transfer-Encoding: identity") + next, {400}},
      {field("Transfer-Encoding:") + next, {400}},
      {field("Content-Length: 0, 0") + next, {400}},
      {field("Content-Length: 0x0") + next, {400}},
      {field("Content-Length:") + next, {400}},
      {field(std::string("X: a\0b", 6)) + next, {400}},
      {field("X\x01: a") + next, {400}},
      {field("X: a\rb") + next, {400}},
      {field(": empty") + next, {400}},
      {chunked("zz\r\n\r\n") + next, {400}},
      {chunked("1 1\r\nx\r\n0\r\n\r\n") + next, {400}},
      {chunked("1\nx\n0\n\n") + next, {400}},
      {chunked("FFFFFFFFFFFFFFFFF\r\n") + next, {400}},
      {chunked("FFFFFFFFFFFFFFFF\r\n") + next, {413}},
      {chunked("1;" + std::string(200'000, 'e') + "\r\nx\r\n0\r\n\r\n"), {400}},
      {chunked("0\r\nX: " + std::string(200'000, 't') + "\r\n\r\n"), {400}},
      // A body that is read without being wanted is out of the way of the next request.
      {"GET /health HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\nGET /" + next, {200, 200}},
      {chunked("0\r\n\r\n") + next, {400, 200}},
      // One that is refused unread ends the connection.
      {"POST /nowhere HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\nGET /" + next, {404}},
      {"POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Length: 40001\r\n\r\n" + next, {413}},
      {request("POST", "/nowhere") + next, {404, 200}},
      {"POST /tokenize HTTP/1.1\r\nHost: localhost\r\n\r\n" + next, {411, 200}},
      {"POST /tokenize HTTP/1.0\r\n\r\n", {411}},
      {"POST /tokenize HTTP/1.0\r\nContent-Length: 17\r\nExpect: magic\r\n\r\n" + kTokenize, {200}},
      {"POST /tokenize HTTP/1.0\r\nContent-Length: 17\r\nExpect: 100-continue\r\n\r\n" + kTokenize, {200}},
      {"CONNECT localhost:80 HTTP/1.1\r\nHost: localhost\r\n\r\n", {404}},
      {"BREW /health HTTP/1.1\r\nHost: localhost\r\n\r\n" + next, {405, 200}},
      {"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n" + next, {200}},
      {"GET /health HTTP/1.1\r\nHost: localhost\r\nUpgrade: h2c\r\nConnection: Upgrade, HTTP2-Settings\r\n\r\n" + next, {200, 200}},
      {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", {505}},
      {"GET /%00 HTTP/1.1\r\nHost: localhost\r\n\r\n", {400}},
      {"GET /%2e%2e/%2e%2e/etc/passwd HTTP/1.1\r\nHost: localhost\r\n\r\n", {404}},
  };
  for (const auto& [bytes, expected] : cases) {
    INFO(bytes.substr(0, 300));
    CHECK(statuses(world, bytes) == expected);
  }
}

TEST_CASE("405 names what the path answers") {
  World world;
  CHECK(world.get("/v1/chat/completions").headers.at("allow") == "POST, OPTIONS");
  CHECK(world.get("/health", "PUT").headers.at("allow") == "GET, HEAD, OPTIONS");
}

TEST_CASE("E18: too long a body is refused before it is sent, and the client hears of it") {
  World world;
  Client client(world.server->port());
  client.send("POST /tokenize HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: 34603008\r\n\r\n");
  const Reply reply = client.reply();
  CHECK(reply.status == 413);
  CHECK(reply.error_field("code") == "body_too_large");
  CHECK(reply.error_field("message").find("33554432") != std::string::npos);
  // One that sends without asking: the refusal must survive the bytes that nobody reads.
  Client eager(world.server->port());
  const std::string some(200'000, 'x');
  eager.send("POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Length: 34603008\r\n\r\n");
  for (int i = 0; i < 5 && eager.try_send(some); ++i) {
  }
  CHECK(eager.reply().status == 413);
}

TEST_CASE("100 is sent once the head is accepted, and not to whoever has begun to send") {
  World world;
  Client begun(world.server->port());
  begun.send(request("POST", "/tokenize", kTokenize, "Expect: 100-Continue\r\n"));
  CHECK(begun.reply().status == 200);
  Client chunks(world.server->port());
  chunks.send(chunked("", "Expect: 100-continue\r\n"));
  CHECK(chunks.reply().status == 100);
  chunks.send("11\r\n" + kTokenize + "\r\n0\r\n\r\n");
  CHECK(chunks.reply().status == 200);
  Client refused(world.server->port());
  refused.send("POST /tokenize HTTP/1.1\r\nHost: evil.example\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n");
  CHECK(refused.reply().status == 403);
  CHECK(refused.closed());
}

TEST_CASE("a body that drips is given up long before its deadline") {
  server::ServerOptions options;
  options.limits.body_deadline = 1h;
  options.limits.body_grace = 50ms;
  options.limits.body_rate = 1'000'000'000;
  World world(options);
  Client client(world.server->port());
  client.send("POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000\r\n\r\n");
  // It sends on and on; only the rate can end this.
  while (client.try_send("x")) std::this_thread::sleep_for(1ms);
  options.limits.body_rate = 1;
  World patient(options);
  Client slow(patient.server->port());
  const std::string all = request("POST", "/tokenize", kTokenize);
  for (const char& byte : all) {
    slow.send(std::string_view(&byte, 1));
    if (&byte - all.data() > static_cast<std::ptrdiff_t>(all.size() - 10)) std::this_thread::sleep_for(10ms);
  }
  CHECK(slow.reply().status == 200);
}

TEST_CASE("what all bodies take together is bounded by what has come, not by what is announced") {
  server::ServerOptions options;
  options.limits.header_bytes = 2048;
  options.limits.body_bytes = 100'000;
  options.limits.bodies_bytes = 150'000;
  World world(options);
  const std::string announced = "POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000\r\n\r\n";
  std::vector<std::unique_ptr<Client>> silent;
  for (int i = 0; i < 5; ++i) {
    silent.push_back(std::make_unique<Client>(world.server->port()));
    silent.back()->send(announced);
    silent.push_back(std::make_unique<Client>(world.server->port()));
    silent.back()->send(chunked("10000\r\n"));
  }
  CHECK(world.get("/livez").status == 200);
  CHECK(world.post("/tokenize", kTokenize).status == 200);
  // One that has sent most of it, as the server has to find out yet, and one that then finds no room.
  silent.front()->send(std::string(90'000, 'x'));
  int status = 200;
  while (status == 200) {
    Client client(world.server->port());
    client.try_send(announced);
    client.try_send("{\"content\":\"" + std::string(100'000 - 14, 'x') + "\"}");
    const Reply reply = client.reply();
    status = reply.status;
    if (status == 503) CHECK(reply.headers.at("retry-after") == "5");
  }
  CHECK(status == 503);
  silent.clear();
  while (world.post("/tokenize", "{\"content\":\"" + std::string(99'000, 'x') + "\"}").status == 503) {
  }
}

TEST_CASE("limits of the head are exact") {
  World world;
  const auto with_fields = [&](std::size_t count) {
    std::string bytes = "GET /health HTTP/1.1\r\nHost: localhost\r\n";
    for (std::size_t i = 1; i < count; ++i) bytes += "X: 1\r\n";
    return statuses(world, bytes + "\r\n");
  };
  CHECK(with_fields(100) == std::vector<int>{200});
  CHECK(with_fields(101) == std::vector<int>{431});
  const auto with_bytes = [&](std::size_t size) {
    const std::string begin = "GET /health HTTP/1.1\r\nHost: localhost\r\nX: ";
    return statuses(world, begin + std::string(size - begin.size() - 4, 'x') + "\r\n\r\n");
  };
  CHECK(with_bytes(32 * 1024 - 100) == std::vector<int>{200});
  CHECK(with_bytes(32 * 1024 + 100) == std::vector<int>{431});
}
