#include <unistd.h>

#include <fstream>
#include <sstream>

#include "tests/catch.hpp"
#include "tests/server/harness.hpp"

using namespace k3;
using namespace k3::test;

TEST_CASE("before the model is there only liveness is good") {
  World world({}, false);
  CHECK(world.get("/livez").status == 200);
  CHECK(world.get("/health").status == 503);
  CHECK(world.get("/readyz").status == 503);
  const Reply refused = world.chat();
  CHECK(refused.status == 503);
  CHECK(refused.headers.contains("retry-after"));
  CHECK(refused.error_field("code") == "model_loading");
  CHECK(world.get("/v1/models").status == 503);
  world.give_model();
  const Reply health = world.get("/health");
  CHECK(health.status == 200);
  CHECK(health.body == R"({"status":"ok"})");
  CHECK(world.get("/readyz").status == 200);
}

TEST_CASE("models are listed and found by name") {
  World world;
  const auto list = world.get("/v1/models").json();
  REQUIRE(list.find("data")->items.size() == 1);
  CHECK(list.find("data")->items[0].find("id")->text == "scripted");
  CHECK(world.get("/v1/models/scripted").status == 200);
  const Reply other = world.get("/v1/models/other");
  CHECK(other.status == 404);
  CHECK(other.error_field("code") == "model_not_found");
}

TEST_CASE("text tools") {
  World world;
  const std::string text = "Zażółć 😀 <|open|>";
  const Reply tokens = world.post("/tokenize", R"({"content":)" + json::quoted(text) + "}");
  REQUIRE(tokens.status == 200);
  const auto expected = world.tokenizer->encode(text, false).value();
  const auto document = tokens.json();
  REQUIRE(document.find("tokens")->items.size() == expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) CHECK(document.find("tokens")->items[i].as_int().value() == expected[i]);
  CHECK(world.post("/detokenize", tokens.body).json().find("content")->text == text);
  const auto special = world.post("/tokenize", R"({"content":"<|open|>","special":true})").json();
  REQUIRE(special.find("tokens")->items.size() == 1);
  CHECK(special.find("tokens")->items[0].as_int().value() == world.tokenizer->control().open);

  CHECK(world.post("/tokenize", "{}").status == 400);
  CHECK(world.post("/tokenize", R"({"content":5})").error_field("param") == "content");
  CHECK(world.post("/detokenize", R"({"tokens":[1,-1]})").error_field("param") == "tokens[1]");
  CHECK(world.post("/detokenize", R"({"tokens":[1.5]})").status == 400);
  CHECK(world.post("/detokenize", R"({"tokens":"1"})").status == 400);
}

TEST_CASE("apply-template shows the prompt the model gets") {
  World world;
  world.model->script({.ids = plain_output("ok")});
  const auto shown = world.post("/apply-template", chat_body()).json();
  REQUIRE(world.chat().status == 200);
  const auto prompt = world.model->last_job().prompt;
  REQUIRE(shown.find("tokens")->items.size() == prompt.size());
  for (std::size_t i = 0; i < prompt.size(); ++i) CHECK(shown.find("tokens")->items[i].as_int().value() == prompt[i]);
  std::string joined;
  for (const auto& segment : shown.find("segments")->items) joined += segment.items.at(0).text;
  CHECK(shown.find("prompt")->text == joined);
  CHECK(world.post("/apply-template", R"({"messages":5})").status == 400);
}

TEST_CASE("wrong paths and methods") {
  World world;
  const Reply nothing = world.get("/v1/embeddings");
  CHECK(nothing.status == 404);
  CHECK(nothing.error_field("code") == "not_found");
  CHECK(nothing.headers.contains("x-request-id"));
  const Reply get = world.get("/v1/chat/completions");
  CHECK(get.status == 405);
  CHECK(get.headers.at("allow") == "POST, OPTIONS");
  CHECK(world.post("/health", "").headers.at("allow") == "GET, HEAD, OPTIONS");
  CHECK(world.get("/health", "DELETE").status == 405);
  const Reply options = world.get("/v1/chat/completions", "OPTIONS");
  CHECK(options.status == 204);
  CHECK(options.headers.at("allow") == "POST, OPTIONS");
  CHECK(world.get("*", "OPTIONS").status == 204);
  const Reply head = world.get("/health", "HEAD");
  CHECK(head.status == 200);
  CHECK(head.headers.at("content-length") == "15");
  CHECK(world.get("/../etc/passwd").status == 404);
  CHECK(world.get("/%zz").status == 400);
  CHECK(world.get("/%00").status == 400);
  CHECK(world.get("/%68ealth").status == 200);
  CHECK(world.get("http://localhost/health?x=1").status == 200);
}

TEST_CASE("the web client is served with a strict policy") {
  World world;
  const std::ifstream page(K3_SOURCE_DIR "/web/index.html");
  const Reply root = world.get("/");
  if (!page) {
    CHECK(root.status == 404);
    return;
  }
  std::stringstream bytes;
  bytes << page.rdbuf();
  CHECK(root.status == 200);
  CHECK(root.body == bytes.str());
  CHECK(root.headers.at("content-type") == "text/html; charset=utf-8");
  CHECK(root.headers.at("content-security-policy").starts_with("default-src 'self';"));
  CHECK(root.headers.at("x-content-type-options") == "nosniff");
}

TEST_CASE("other sites are kept out") {
  World world;
  const auto with = [&](std::string_view host, std::string_view headers = "") {
    Client client(world.server->port());
    client.send("GET /health HTTP/1.1\r\nHost: " + std::string(host) + "\r\n" + std::string(headers) + "\r\n");
    return client.reply();
  };
  for (const char* host : {"localhost", "LOCALHOST:8080", "127.0.0.1:1", "[::1]", "[::1]:80"}) CHECK(with(host).status == 200);
  for (const char* host : {"evil.example", "localhost.evil.example", "127.0.0.2", "", "[::2]"}) {
    INFO(host);
    const Reply reply = with(host);
    CHECK(reply.status == 403);
    CHECK(reply.error_field("code") == "host_not_allowed");
  }
  CHECK(with("localhost:80", "Origin: http://localhost:80\r\n").status == 200);
  CHECK(with("localhost:80", "Origin: http://evil.example\r\n").error_field("code") == "origin_not_allowed");
  CHECK(with("localhost:80", "Origin: null\r\n").status == 403);

  server::ServerOptions options;
  options.allowed_hosts = {"Box.Local"};
  World named(options);
  Client client(named.server->port());
  client.send("GET /health HTTP/1.1\r\nHost: box.local:99\r\n\r\n");
  CHECK(client.reply().status == 200);
}

TEST_CASE("API keys") {
  const std::string path = "/tmp/k3_test_keys_" + std::to_string(::getpid());
  std::ofstream(path) << "# people\nalice secret-a\n\nsecret-b # no name\n";
  server::ServerOptions options;
  options.api_key_file = path;
  {
    World world(options);
    CHECK(world.get("/health").status == 200);
    const Reply refused = world.get("/v1/models");
    CHECK(refused.status == 401);
    CHECK(refused.error_field("code") == "invalid_api_key");
    CHECK(world.get("/v1/nowhere").status == 401);
    CHECK(world.get("/v1/chat/completions", "OPTIONS").status == 204);
    const auto with = [&](const std::string& header) {
      Client client(world.server->port());
      client.send(request("GET", "/v1/models", "", header + "\r\n"));
      return client.reply().status;
    };
    CHECK(with("Authorization: Bearer secret-a") == 200);
    CHECK(with("authorization: bearer secret-b") == 200);
    CHECK(with("X-API-Key: secret-b") == 200);
    CHECK(with("Authorization: Bearer alice") == 401);
    CHECK(with("Authorization: Bearer ") == 401);
    CHECK(with("Authorization: Bearer secret-aa") == 401);
  }
  std::ofstream(path) << "# nobody\n";
  CHECK(server::Server::bind(options).has_error());
  std::ofstream(path) << "a b c\n";
  CHECK(server::Server::bind(options).has_error());
  std::remove(path.c_str());
  CHECK(server::Server::bind(options).error().code == ErrorCode::io);
}

TEST_CASE("G10: binding") {
  World world;
  server::ServerOptions taken;
  taken.port = world.server->port();
  const auto second = server::Server::bind(taken);
  REQUIRE(second.has_error());
  CHECK(second.error().code == ErrorCode::io);
  CHECK(second.error().describe().find(std::to_string(taken.port)) != std::string::npos);
  CHECK(world.server->url() == "http://127.0.0.1:" + std::to_string(world.server->port()));

  server::ServerOptions open;
  open.host = "0.0.0.0";
  open.port = 0;
  CHECK(server::Server::bind(open).error().code == ErrorCode::invalid_argument);
  open.host = "no address";
  CHECK(server::Server::bind(open).error().code == ErrorCode::invalid_argument);
}
