// The line for each request, and the id that joins it to what the client has seen.
#include "server/request_log.hpp"

#include <algorithm>

#include "tests/catch.hpp"
#include "tests/server/harness.hpp"
#include "tests/server/temporary.hpp"

using namespace k3;
using namespace k3::test;

namespace {

// The lines of a server's whole life.
std::vector<std::string> lines_of(const std::filesystem::path& file) {
  std::vector<std::string> lines;
  std::istringstream in(contents(file));
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

std::string text_in(const json::Value& object, std::string_view name) {
  const json::Value* field = object.find(name);
  REQUIRE(field != nullptr);
  return field->text;
}

server::ServerOptions logging_to(const TemporaryFolder& folder, server::LogFormat format) {
  server::ServerOptions options;
  options.log_format = format;
  options.log_file = folder.path / (format == server::LogFormat::json ? "json" : "text");
  return options;
}

}  // namespace

TEST_CASE("a request's id is the client's where it is sane, and stands in response and log") {
  const TemporaryFolder folder;
  server::ServerOptions options;
  options.log_format = server::LogFormat::json;
  options.log_file = folder.path / "log";
  options.api_key_file = folder.write("keys", "alice:secret-of-alice\n");
  {
    World world(options);
    world.model->script({.ids = plain_output("ok")});
    const auto id_of = [&](const std::string& id) {
      return world
          .post("/v1/chat/completions", chat_body(R"("user":"body-text")", true),
                "Authorization: Bearer secret-of-alice\r\nX-Request-Id: " + id + "\r\n")
          .headers.at("x-request-id");
    };
    CHECK(id_of("trace-1_2.3:4") == "trace-1_2.3:4");
    CHECK(id_of(std::string(128, 'a')) == std::string(128, 'a'));
    for (const std::string wrong : {"", "a b", "a\"b", "\xc3\xa4", "a\tb", "../x"}) CHECK(id_of(wrong).starts_with("req-"));
    CHECK(id_of(std::string(129, 'a')).starts_with("req-"));
    const Reply refused = world.post("/v1/chat/completions", "{}", "x-api-key: wrong-secret\r\nX-Request-Id: denied\r\n");
    CHECK(refused.status == 401);
    CHECK(refused.headers.at("x-request-id") == "denied");
    Client nonsense(world.server->port());
    nonsense.send("nonsense\r\n\r\n");
    CHECK(nonsense.reply().headers.at("x-request-id").starts_with("req-"));
  }
  const auto lines = lines_of(options.log_file);
  REQUIRE(lines.size() == 11);
  for (const auto& line : lines) {
    INFO(line);
    CHECK(json::parse(line).has_value());
    for (const char* secret : {"secret", "body-text", "messages"}) CHECK(line.find(secret) == std::string::npos);
  }
  const auto first = json::parse(lines.front()).value();
  CHECK(text_in(first, "id") == "trace-1_2.3:4");
  CHECK(text_in(first, "key") == "alice");
  CHECK(text_in(first, "peer") == "127.0.0.1");
  CHECK(text_in(first, "path") == "/v1/chat/completions");
  CHECK(text_in(first, "finish") == "stop");
  CHECK(text_in(first, "status") == "200");
  const auto denied =
      std::find_if(lines.begin(), lines.end(), [](const auto& line) { return line.find("denied") != std::string::npos; });
  REQUIRE(denied != lines.end());
  CHECK(text_in(json::parse(*denied).value(), "code") == "invalid_api_key");
}

TEST_CASE("F5: an answer that was cut off while thinking is told from one that was cut off, with what helps") {
  const TemporaryFolder folder;
  for (const auto format : {server::LogFormat::text, server::LogFormat::json}) {
    const auto options = logging_to(folder, format);
    {
      World world(options);
      const auto all = plain_output("one two three");
      const auto after = [&](std::ptrdiff_t count) {
        world.model->script({.ids = {all.begin(), all.begin() + count}});
        for (const bool stream : {false, true}) CHECK(world.chat("", stream).status == 200);
      };
      after(1);
      after(static_cast<std::ptrdiff_t>(all.size()) - 8);
      after(static_cast<std::ptrdiff_t>(all.size()));
    }
    const auto lines = lines_of(options.log_file);
    REQUIRE(lines.size() == 6);
    for (std::size_t i = 0; i < lines.size(); ++i) {
      INFO(lines[i]);
      const bool cut = i < 2;
      CHECK((lines[i].find("raise max_tokens, set reasoning_budget or lower reasoning_effort") != std::string::npos) == cut);
      if (format != server::LogFormat::json) continue;
      const auto line = json::parse(lines[i]).value();
      CHECK(text_in(line, "finish") == (i < 4 ? "length" : "stop"));
      CHECK((line.find("cut_thinking") != nullptr) == cut);
    }
  }
}

TEST_CASE("no request can forge a line of the log, nor make one long") {
  const TemporaryFolder folder;
  for (const auto format : {server::LogFormat::text, server::LogFormat::json}) {
    const auto options = logging_to(folder, format);
    {
      World world(options);
      for (const std::string& path : std::vector<std::string>{"/%0d%0areq-forged", "/%22,%22status%22:200", "/\xff\xfe%80%1b[31m",
                                                              "/%E2%80%A8x", "/" + std::string(9000, 'p')}) {
        CHECK(world.get(path).status == 404);
      }
      Client client(world.server->port());
      client.send(std::string(8000, 'M') + " / HTTP/1.1\r\nHost: localhost\r\n\r\n");
      CHECK(client.reply().status == 405);
    }
    const auto lines = lines_of(options.log_file);
    CHECK(lines.size() == 6);
    for (const auto& line : lines) {
      INFO(line);
      CHECK(line.size() < 600);
      CHECK(std::all_of(line.begin(), line.end(), [](char c) { return c >= ' ' && c < 0x7f; }));
      if (format == server::LogFormat::json) CHECK(json::parse(line).value().find("status")->text != "200");
    }
  }
}

TEST_CASE("a log file that cannot be written is an error at the start") {
  const TemporaryFolder folder;
  server::ServerOptions options;
  options.port = 0;
  options.log_file = folder.path / "nowhere" / "log";
  const auto server = server::Server::bind(options);
  REQUIRE(server.has_error());
  CHECK(server.error().code == ErrorCode::io);
  CHECK(server.error().describe().find("nowhere") != std::string::npos);
}

TEST_CASE("a log file is appended to, also after it was cut") {
  const TemporaryFolder folder;
  server::ServerOptions options;
  options.log_file = folder.write("log", "earlier\n");
  World world(options);
  CHECK(world.get("/health").status == 200);
  CHECK(world.get("/health").status == 200);
  world.server->drain(std::chrono::milliseconds(0));
  world.server->wait();
  CHECK(lines_of(options.log_file).size() == 3);
  std::filesystem::resize_file(options.log_file, 0);
  CHECK(contents(options.log_file).empty());
}
