#include "tests/catch.hpp"
#include "tests/server/harness.hpp"

using namespace k3;
using namespace k3::test;
using namespace std::chrono_literals;

namespace {

// The status of the first response to raw bytes, 0 for none; the connection must be usable by others afterwards.
int status_of(World& world, std::string_view bytes) {
  Client client(world.server->port());
  client.try_send(bytes);
  client.half_close();
  Reply reply;
  return client.head(reply);
}

}  // namespace

TEST_CASE("what is not HTTP is refused, and the server lives on") {
  World world;
  const std::string ok = "GET /health HTTP/1.1\r\nHost: localhost\r\n";
  const std::pair<std::string, int> cases[] = {
      {"\r\n\r\n", 400},
      {std::string("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", 15), 400},  // TLS on a plain port
      {"GET /health\r\n\r\n", 400},
      {"GET /health HTTP/2.0\r\nHost: localhost\r\n\r\n", 505},
      {"GET /health HTTP/1.2\r\nHost: localhost\r\n\r\n", 505},
      {"GET /health HTTP/x.y\r\nHost: localhost\r\n\r\n", 400},
      {"GET /health HTTQ/1.1\r\nHost: localhost\r\n\r\n", 400},
      {"GET /health HTTP/1.1\nHost: localhost\n\n", 400},
      {"GET /health HTTP/1.1\nHost: localhost\r\n\r\n", 400},
      {"GET /health HTTP/1.1\r\nHost: localhost\n\r\n", 400},
      {ok + "X: 1\r\n two\r\n\r\n", 400},
      {ok + "X: 1\r\n\ttwo\r\n\r\n", 400},
      {ok + "X: 1\r\n \r\n\r\n", 400},
      {"GET /health HTTP/1.1\r\n Host: localhost\r\n\r\n", 400},
      {ok + "Content-Encoding: gzip\r\n\r\n", 415},
      {ok + "Content-Encoding: identity\r\nContent-Encoding: br\r\n\r\n", 415},
      {ok + "Content-Encoding: Identity\r\n\r\n", 200},
      {"GET /health HTTP/1.1\r\n\r\n", 400},
      {ok + "Host: localhost\r\n\r\n", 400},
      {ok + "bad header\r\n\r\n", 400},
      {ok + "Content-Length: +5\r\n\r\nhello", 400},
      {ok + "Content-Length: -1\r\n\r\n", 400},
      {ok + "Content-Length: 5x\r\n\r\nhello", 400},
      {ok + "Content-Length: 99999999999999999999999\r\n\r\n", 400},
      {ok + "Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello", 400},
      {ok + "Content-Length: 5\r\nContent-Length: 5\r\n\r\nhello", 400},
      {ok + "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400},
      {ok + "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n", 400},
      {ok + "Transfer-Encoding: gzip\r\n\r\n", 400},
      {ok + "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", 400},
      {ok + "Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n", 400},
      {ok + "Expect: miracles\r\n\r\n", 417},
      {"POST /tokenize HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n", 400},
      {"POST /tokenize HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\n\r\n", 400},
      {"POST /tokenize HTTP/1.0\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400},
  };
  for (const auto& [bytes, status] : cases) {
    INFO(bytes);
    CHECK(status_of(world, bytes) == status);
  }
  CHECK(status_of(world, "") == 0);
  CHECK(status_of(world, "GET /hea") == 0);
  CHECK(world.get("/health").status == 200);
}

TEST_CASE("refusals of framing are the request's fault, and say why") {
  World world;
  const auto reply_to = [&](std::string_view bytes) {
    Client client(world.server->port());
    client.send(bytes);
    return client.reply();
  };
  const Reply version = reply_to("GET /health HTTP/2.0\r\nHost: localhost\r\n\r\n");
  CHECK(version.error_field("type") == "invalid_request_error");
  CHECK(version.error_field("code") == "http_version");
  CHECK(reply_to("GET /health HTTP/1.1\n").error_field("message").find("LF without CR") != std::string::npos);
  CHECK(reply_to(request("GET", "/health", "", "X: 1\r\n 2\r\n")).error_field("message").find("folded") != std::string::npos);
  const Reply encoded = reply_to(request("POST", "/tokenize", "x", "Content-Encoding: gzip\r\n"));
  CHECK(encoded.error_field("type") == "invalid_request_error");
  CHECK(encoded.headers.at("accept-encoding") == "identity");
}

TEST_CASE("what follows a request of unknown length is not taken for another") {
  World world;
  const std::string smuggled = request("GET", "/health");
  for (const std::string fields : {"Transfer-Encoding: gzip\r\n", "Transfer-Encoding: chunked, gzip\r\n",
                                   "Transfer-Encoding: xchunked\r\n", "Content-Length: 1\r\nContent-Length: 1\r\n"}) {
    INFO(fields);
    Client client(world.server->port());
    client.try_send("POST /tokenize HTTP/1.1\r\nHost: localhost\r\n" + fields + "\r\n" + smuggled);
    const Reply refused = client.reply();
    CHECK(refused.status == 400);
    CHECK(client.closed());
  }
}

TEST_CASE("a head may be cut anywhere") {
  World world;
  const std::string good = request("POST", "/tokenize", "{\"content\":\n\n \"x\"}", "X: 1\r\n");
  const std::string folded = "GET /health HTTP/1.1\r\nHost: localhost\r\nX: 1\r\n 2\r\n\r\n";
  Client client(world.server->port());
  for (std::size_t cut = 1; cut < good.size(); ++cut) {
    INFO(cut);
    client.send(std::string_view(good).substr(0, cut));
    CHECK(world.get("/livez").status == 200);
    client.send(std::string_view(good).substr(cut));
    REQUIRE(client.reply().status == 200);
  }
  for (std::size_t cut = 1; cut < folded.size() - 4; ++cut) {
    INFO(cut);
    Client other(world.server->port());
    other.send(std::string_view(folded).substr(0, cut));
    CHECK(world.get("/livez").status == 200);
    other.try_send(std::string_view(folded).substr(cut));
    REQUIRE(other.reply().status == 400);
  }
}

TEST_CASE("header limits") {
  World world;
  const Reply large = [&] {
    Client client(world.server->port());
    client.try_send("GET /health HTTP/1.1\r\nHost: localhost\r\nX: " + std::string(64 * 1024, 'x') + "\r\n\r\n");
    return client.reply();
  }();
  CHECK(large.status == 431);
  CHECK(large.headers.at("connection") == "close");
  std::string many = "GET /health HTTP/1.1\r\nHost: localhost\r\n";
  for (int i = 0; i < 100; ++i) many += "X-" + std::to_string(i) + ": 1\r\n";
  CHECK(status_of(world, many + "\r\n") == 431);
}

TEST_CASE("body limits") {
  server::ServerOptions options;
  options.limits.header_bytes = 2048;
  options.limits.body_bytes = 4096;
  World world(options);
  {
    // Refused on sight of the length: nothing of the body was sent.
    Client client(world.server->port());
    client.send("POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4097\r\n\r\n");
    const Reply reply = client.reply();
    CHECK(reply.status == 413);
    CHECK(reply.error_field("message").find("4096") != std::string::npos);
    CHECK(client.closed());
  }
  Client client(world.server->port());
  client.try_send("POST /tokenize HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n1400\r\n" +
                  std::string(0x1400, 'x') + "\r\n0\r\n\r\n");
  CHECK(client.reply().status == 413);
  CHECK(world.post("/tokenize", R"({"content":")" + std::string(4000, 'x') + "\"}").status == 200);
}

TEST_CASE("a body may hold so many values and no more") {
  server::ServerOptions options;
  options.limits.json_values = 5;
  World world(options);
  // The object, the array, and three in it.
  CHECK(world.post("/detokenize", R"({"tokens":[65,66,67]})").status == 200);
  const Reply reply = world.post("/detokenize", R"({"tokens":[65,66,67,68]})");
  CHECK(reply.status == 400);
  CHECK(reply.error_field("code") == "invalid_json");
  CHECK(reply.error_field("message").find("too many values") != std::string::npos);
}

TEST_CASE("the default body limit is 32 MiB") {
  World world;
  Client client(world.server->port());
  client.send("POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Length: 34603008\r\n\r\n");
  CHECK(client.reply().status == 413);
}

TEST_CASE("deadlines for head and body") {
  server::ServerOptions options;
  options.limits.header_deadline = 60ms;
  options.limits.body_deadline = 60ms;
  World world(options);
  Client head(world.server->port());
  head.send("GET /health HT");
  CHECK(head.reply().status == 408);
  Client body(world.server->port());
  body.send("POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Length: 20\r\n\r\n{");
  CHECK(body.reply().status == 408);
  CHECK(body.closed());
  // One that never says anything is not worth a response.
  Client silent(world.server->port());
  Reply none;
  CHECK(silent.head(none) == 0);
}

TEST_CASE("an idle kept connection is closed") {
  server::ServerOptions options;
  options.limits.idle = 60ms;
  World world(options);
  Client client(world.server->port());
  client.send(request("GET", "/health"));
  CHECK(client.reply().status == 200);
  CHECK(client.closed());
}

TEST_CASE("keep-alive and pipelining") {
  World world;
  world.model->script({.ids = plain_output("one")});
  Client client(world.server->port());
  for (int i = 0; i < 3; ++i) {
    client.send(request("POST", "/v1/chat/completions", chat_body("", i % 2 == 1)));
    const Reply reply = client.reply();
    CHECK(reply.status == 200);
    CHECK(reply.complete);
    CHECK(reply.headers.at("connection") == "keep-alive");
  }
  // Three at once, the first with a model behind it: its watch must leave the others' bytes alone.
  client.send(request("POST", "/v1/chat/completions", chat_body("", true)) + request("GET", "/health") +
              request("POST", "/tokenize", R"({"content":"x"})"));
  CHECK(client.reply().events().back() == "[DONE]");
  CHECK(client.reply().body == R"({"status":"ok"})");
  CHECK(client.reply().status == 200);
  client.send(request("GET", "/health", "", "Connection: close\r\n"));
  CHECK(client.reply().headers.at("connection") == "close");
  CHECK(client.closed());
}

TEST_CASE("bytes that come during a generation are the next request") {
  World world;
  world.model->script({.ids = plain_output("one"), .pause = Phase::decode});
  Client client(world.server->port());
  client.send(request("POST", "/v1/chat/completions", chat_body("", true)));
  world.model->wait_paused(1);
  client.send(request("GET", "/health"));
  world.model->release();
  CHECK(client.reply().events().back() == "[DONE]");
  CHECK(client.reply().body == R"({"status":"ok"})");
}

TEST_CASE("E22: a chunked body may be cut anywhere") {
  World world;
  const std::string head = "POST /tokenize HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n";
  const std::string body = "5;ext=1\r\n{\"con\r\n6\r\ntent\":\r\n8\r\n\"x😀\"}\r\n0\r\nTrailer: 1\r\n\r\n";
  const std::string all = head + body;
  const std::string expected = world.post("/tokenize", "{\"content\":\"x😀\"}").body;
  Client client(world.server->port());
  for (std::size_t cut = 1; cut < all.size(); ++cut) {
    client.send(std::string_view(all).substr(0, cut));
    client.send(std::string_view(all).substr(cut));
    const Reply reply = client.reply();
    INFO(cut << " " << reply.body);
    REQUIRE(reply.status == 200);
    REQUIRE(reply.body == expected);
  }
}

TEST_CASE("Expect: 100-continue") {
  World world;
  Client client(world.server->port());
  const std::string body = R"({"content":"x"})";
  client.send("POST /tokenize HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: " +
              std::to_string(body.size()) + "\r\n\r\n");
  CHECK(client.reply().status == 100);
  client.send(body);
  CHECK(client.reply().status == 200);
  // What is refused anyway is refused before the client has to send it.
  Client refused(world.server->port());
  refused.send("POST /nowhere HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n");
  CHECK(refused.reply().status == 404);
  CHECK(refused.closed());
}

TEST_CASE("HTTP/1.0 gets a stream without chunks") {
  World world;
  world.model->script({.ids = plain_output("one")});
  Client client(world.server->port());
  const std::string body = chat_body("", true);
  client.send("POST /v1/chat/completions HTTP/1.0\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body);
  const Reply reply = client.reply();
  CHECK(reply.status == 200);
  CHECK(!reply.headers.contains("transfer-encoding"));
  CHECK(reply.body.ends_with("data: [DONE]\n\n"));
}

TEST_CASE("connection limits") {
  server::ServerOptions options;
  options.limits.connections_per_address = 2;
  World world(options);
  Client one(world.server->port()), two(world.server->port());
  for (Client* client : {&one, &two}) {
    client->send(request("GET", "/health"));
    CHECK(client->reply().status == 200);
  }
  Client three(world.server->port());
  CHECK(three.reply().status == 503);
  one.close();
  two.send(request("GET", "/health", "", "Connection: close\r\n"));
  CHECK(two.reply().status == 200);
  CHECK(two.closed());
  // Both places are free once the server has noticed; a place that is never freed ends this loop in failure.
  int status = 503;
  for (int i = 0; i < 1000 && status == 503; ++i) {
    Client again(world.server->port());
    again.try_send(request("GET", "/health"));
    Reply reply;
    status = again.head(reply) == 200 ? 200 : 503;
  }
  CHECK(status == 200);
}
