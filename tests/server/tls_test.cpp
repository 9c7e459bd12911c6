// TLS: the same server behind it, and what is refused at the start.
#include <openssl/err.h>
#include <openssl/ssl.h>

#include <cstdlib>

#include "tests/catch.hpp"
#include "tests/server/harness.hpp"
#include "tests/server/temporary.hpp"

using namespace k3;
using namespace k3::test;
using namespace std::chrono_literals;

namespace {

// A certificate for localhost, made once.
struct Certificate {
  Certificate() {
    const std::string command =
        "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=localhost -keyout " + key.string() +
        " -out " + file.string() + " 2>/dev/null";
    REQUIRE(std::system(command.c_str()) == 0);
  }
  TemporaryFolder folder;
  std::filesystem::path file = folder.path / "cert.pem", key = folder.path / "key.pem";
};

const Certificate& certificate() {
  static const Certificate made;
  return made;
}

server::ServerOptions with_tls() {
  server::ServerOptions options;
  options.tls_certificate = certificate().file;
  options.tls_key = certificate().key;
  return options;
}

// A client that checks the certificate, over a socket of the harness.
class TlsClient {
 public:
  explicit TlsClient(std::uint16_t port, int newest = 0) : socket_(port), context_(SSL_CTX_new(TLS_client_method())) {
    SSL_CTX_load_verify_locations(context_, certificate().file.c_str(), nullptr);
    SSL_CTX_set_verify(context_, SSL_VERIFY_PEER, nullptr);
    if (newest != 0) {
      // Or the client itself would not offer what the server is to refuse.
      SSL_CTX_set_security_level(context_, 0);
      SSL_CTX_set_max_proto_version(context_, newest);
    }
    ssl_ = SSL_new(context_);
    SSL_set_fd(ssl_, socket_.descriptor());
    connected = SSL_connect(ssl_) == 1;
  }
  ~TlsClient() {
    SSL_free(ssl_);
    SSL_CTX_free(context_);
    ERR_clear_error();
  }
  TlsClient(const TlsClient&) = delete;

  bool send(const std::string& bytes) { return SSL_write(ssl_, bytes.data(), static_cast<int>(bytes.size())) > 0; }
  // What comes until `mark` has come, or all.
  std::string until(const std::string& mark) {
    std::string text;
    char block[4096];
    while (mark.empty() || text.find(mark) == std::string::npos) {
      const int got = SSL_read(ssl_, block, sizeof block);
      if (got <= 0) break;
      text.append(block, static_cast<std::size_t>(got));
    }
    farewell = SSL_get_shutdown(ssl_) & SSL_RECEIVED_SHUTDOWN;
    return text;
  }
  void leave() {
    SSL_shutdown(ssl_);
    socket_.close();
  }
  std::string version() const { return SSL_get_version(ssl_); }

  bool connected = false;
  bool farewell = false;  // the server has said that it ends, so that nobody has cut it off
 private:
  Client socket_;
  SSL_CTX* context_;
  SSL* ssl_ = nullptr;
};

}  // namespace

TEST_CASE("answers through TLS are those in clear") {
  World world(with_tls());
  CHECK(world.server->url().starts_with("https://127.0.0.1:"));
  world.model->script({.ids = plain_output("one two three")});
  TlsClient client(world.server->port());
  REQUIRE(client.connected);
  CHECK(client.version() == "TLSv1.3");
  // Two at once: the second is within the same record, where no look at the socket could see it.
  REQUIRE(client.send(request("GET", "/health") + request("POST", "/v1/chat/completions", chat_body("", true))));
  CHECK(client.until("[DONE]\n\n\r\n0\r\n\r\n").find("\"finish_reason\":\"stop\"") != std::string::npos);
  // Larger than a record and than a socket's buffer, both ways.
  const std::string large(3'000'000, 'x');
  REQUIRE(client.send(request("POST", "/tokenize", "{\"content\":\"" + large + "\"}", "Connection: close\r\n")));
  const std::string answer = client.until("");
  CHECK(answer.starts_with("HTTP/1.1 200 OK\r\n"));
  CHECK(answer.ends_with("]}"));
  CHECK(client.farewell);
  TlsClient refused(world.server->port());
  REQUIRE(refused.send("nonsense\r\n\r\n"));
  CHECK(refused.until("").starts_with("HTTP/1.1 400 "));
}

TEST_CASE("TLS begins at 1.2, and nothing else is spoken at its port") {
  auto options = with_tls();
  options.limits.header_deadline = 100ms;
  World world(options);
  TlsClient older(world.server->port(), TLS1_2_VERSION);
  CHECK(older.connected);
  CHECK(older.version() == "TLSv1.2");
  TlsClient oldest(world.server->port(), TLS1_1_VERSION);
  CHECK(!oldest.connected);
  Client clear(world.server->port());
  clear.try_send(request("GET", "/health"));
  CHECK(clear.everything().find("HTTP/") == std::string::npos);
  // One that begins a handshake and never ends it.
  Client silent(world.server->port());
  silent.send("\x16\x03\x01");
  CHECK(silent.closed());
}

TEST_CASE("a client behind TLS that leaves takes its job with it") {
  World world(with_tls());
  std::size_t done = 0;
  for (const bool stream : {false, true}) {
    for (const Phase phase : {Phase::queued, Phase::prefill, Phase::decode}) {
      INFO(stream << " " << static_cast<int>(phase));
      world.model->script({.ids = plain_output("x"), .endless = true, .pause = phase});
      TlsClient client(world.server->port());
      REQUIRE(client.send(request("POST", "/v1/chat/completions", chat_body("", stream))));
      world.model->wait_paused(++done);
      client.leave();
      world.model->wait_cancelled(done);
    }
  }
}

TEST_CASE("the Unix socket of a server with TLS is in clear") {
  auto options = with_tls();
  options.unix_socket = certificate().folder.path / "k3.sock";
  World world(options);
  Client client(options.unix_socket.string());
  client.send(request("GET", "/health"));
  CHECK(client.reply().status == 200);
}

TEST_CASE("TLS files that are wrong are named at the start") {
  const TemporaryFolder folder;
  const Certificate other;
  const auto refusal = [](const std::filesystem::path& file, const std::filesystem::path& key) {
    server::ServerOptions options;
    options.port = 0;
    options.tls_certificate = file;
    options.tls_key = key;
    const auto server = server::Server::bind(options);
    REQUIRE(server.has_error());
    CHECK(server.error().code == ErrorCode::invalid_argument);
    return server.error();
  };
  const auto& good = certificate();
  const auto nonsense = folder.write("nonsense.pem", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n");
  const auto locked = folder.path / "locked.pem";
  REQUIRE(std::system(("openssl ec -in " + good.key.string() + " -aes128 -passout pass:x -out " + locked.string() + " 2>/dev/null")
                          .c_str()) == 0);
  CHECK(refusal(good.file, "").message.find("two files") != std::string::npos);
  CHECK(refusal(folder.path / "missing.pem", good.key).file.ends_with("missing.pem"));
  CHECK(refusal(good.file, folder.path).file == folder.path.string());
  CHECK(refusal(nonsense, good.key).file == nonsense.string());
  CHECK(refusal(good.file, nonsense).file == nonsense.string());
  CHECK(refusal(good.file, locked).file == locked.string());
  CHECK(refusal(good.file, other.key).file == other.key.string());
}
