#include "tests/server/harness.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>

#include "tests/catch.hpp"

namespace k3::test {
namespace {

// Only a broken test ever waits this long.
constexpr std::chrono::seconds kPatience{30};

}  // namespace

std::function<std::chrono::steady_clock::time_point()> TestClock::source() const {
  return [now = milliseconds_] { return std::chrono::steady_clock::time_point(std::chrono::milliseconds(now->load())); };
}

void TestClock::advance(server::Server& server, std::chrono::milliseconds by) {
  *milliseconds_ += by.count();
  server.look_at_clock();
}

json::Value Reply::json() const {
  auto value = json::parse(body);
  INFO("body: " << body);
  REQUIRE(value.has_value());
  return std::move(*value);
}

std::vector<std::string> Reply::events() const {
  std::vector<std::string> payloads;
  for (const auto& chunk : chunks) {
    INFO("chunk: " << chunk);
    REQUIRE(chunk.ends_with("\n\n"));
    REQUIRE(chunk.find("\n\n") == chunk.size() - 2);
    if (chunk.starts_with(":")) continue;
    REQUIRE(chunk.starts_with("data: "));
    payloads.push_back(chunk.substr(6, chunk.size() - 8));
  }
  return payloads;
}

std::string Reply::error_field(std::string_view name) const {
  const json::Value document = json();
  const json::Value* error = document.find("error");
  REQUIRE(error != nullptr);
  const json::Value* field = error->find(name);
  REQUIRE(field != nullptr);
  return field->is_null() ? "null" : field->text;
}

void Client::be_patient() {
  timeval patience{.tv_sec = kPatience.count(), .tv_usec = 0};
  ::setsockopt(descriptor_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
}

Client::Client(const std::string& unix_socket) : descriptor_(::socket(AF_UNIX, SOCK_STREAM, 0)) {
  be_patient();
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  REQUIRE(unix_socket.copy(address.sun_path, sizeof address.sun_path - 1) == unix_socket.size());
  REQUIRE(::connect(descriptor_, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0);
}

Client::Client(std::uint16_t port, int receive_buffer) : descriptor_(::socket(AF_INET, SOCK_STREAM, 0)) {
  be_patient();
  // Or the second of two small sends waits for the first one's delayed acknowledgement.
  const int at_once = 1;
  ::setsockopt(descriptor_, IPPROTO_TCP, TCP_NODELAY, &at_once, sizeof at_once);
  if (receive_buffer > 0) ::setsockopt(descriptor_, SOL_SOCKET, SO_RCVBUF, &receive_buffer, sizeof receive_buffer);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  REQUIRE(::connect(descriptor_, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0);
}

Client::~Client() { close(); }

bool Client::try_send(std::string_view bytes) {
  while (!bytes.empty()) {
    const auto sent = ::send(descriptor_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent <= 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(sent));
  }
  return true;
}

void Client::send(std::string_view bytes) { REQUIRE(try_send(bytes)); }

bool Client::fill() {
  char block[65536];
  const auto got = ::recv(descriptor_, block, sizeof block, 0);
  if (got <= 0) return false;
  buffer_.append(block, static_cast<std::size_t>(got));
  return true;
}

std::string Client::line() {
  std::size_t end;
  while ((end = buffer_.find("\r\n")) == std::string::npos) {
    if (!fill()) return {};
  }
  const std::string text = buffer_.substr(0, end);
  buffer_.erase(0, end + 2);
  return text;
}

std::string Client::take(std::size_t count) {
  while (buffer_.size() < count) {
    if (!fill()) break;
  }
  std::string text = buffer_.substr(0, count);
  buffer_.erase(0, count);
  return text;
}

int Client::head(Reply& reply) {
  const std::string status = line();
  if (status.size() < 12) return 0;
  reply.status = std::stoi(status.substr(9, 3));
  for (std::string field = line(); !field.empty(); field = line()) {
    const std::size_t colon = field.find(": ");
    REQUIRE(colon != std::string::npos);
    std::string name = field.substr(0, colon);
    std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    reply.headers[name] = field.substr(colon + 2);
  }
  return reply.status;
}

std::string Client::piece() {
  if (buffer_.empty()) fill();
  return std::exchange(buffer_, {});
}

std::string Client::chunk() {
  const std::string size = line();
  if (size.empty()) return {};
  std::string data = take(std::stoul(size, nullptr, 16));
  take(2);
  return data;
}

Reply Client::reply(bool head_only) {
  Reply reply;
  if (head(reply) == 0 || head_only || reply.status == 204 || reply.status < 200) return reply;
  if (reply.headers.contains("content-length")) {
    const std::size_t length = std::stoul(reply.headers["content-length"]);
    reply.body = take(length);
    reply.complete = reply.body.size() == length;
  } else if (reply.headers.contains("transfer-encoding")) {
    for (;;) {
      const std::string size = line();
      if (size.empty()) break;
      const std::size_t length = std::stoul(size, nullptr, 16);
      std::string data = take(length);
      take(2);
      reply.complete = length == 0;
      if (length == 0) break;
      reply.body += data;
      reply.chunks.push_back(std::move(data));
    }
  } else {
    while (fill()) {
    }
    reply.body = std::exchange(buffer_, {});
    reply.complete = true;
  }
  return reply;
}

std::string Client::everything() {
  while (fill()) {
  }
  return std::exchange(buffer_, {});
}

bool Client::closed() {
  buffer_.clear();
  while (fill()) buffer_.clear();
  return errno != EAGAIN && errno != EWOULDBLOCK;
}

void Client::close() {
  if (descriptor_ >= 0) ::close(descriptor_);
  descriptor_ = -1;
}

void Client::reset() {
  const linger now{.l_onoff = 1, .l_linger = 0};
  ::setsockopt(descriptor_, SOL_SOCKET, SO_LINGER, &now, sizeof now);
  close();
}

void Client::half_close() { ::shutdown(descriptor_, SHUT_WR); }

World::World(server::ServerOptions options, bool with_model) : tokenizer(mini_tokenizer()) {
  options.port = 0;
  options.log_requests = !options.log_file.empty();
  // A refused peer that keeps its end open would hold up each test's end.
  options.limits.linger = std::chrono::milliseconds(50);
  auto bound = server::Server::bind(options);
  REQUIRE(bound.has_value());
  server = std::move(*bound);
  server->start();
  if (with_model) give_model();
}

World::~World() { server.reset(); }

void World::give_model() { server->set_model(model, tokenizer); }

void World::settle() {
  // Twice, because a connection that was made before may be read from after the first.
  for (int i = 0; i < 2; ++i) REQUIRE(get("/livez").status == 200);
}

Reply World::get(std::string_view path, std::string_view method) {
  Client client(server->port());
  client.send(request(method, path));
  return client.reply(method == "HEAD");
}

Reply World::post(std::string_view path, std::string_view body, std::string_view headers) {
  Client client(server->port());
  client.send(request("POST", path, body, headers));
  return client.reply();
}

Reply World::chat(std::string_view extra, bool stream) { return post("/v1/chat/completions", chat_body(extra, stream)); }

std::string request(std::string_view method, std::string_view path, std::string_view body, std::string_view headers) {
  std::string text = std::string(method) + " " + std::string(path) + " HTTP/1.1\r\nHost: localhost\r\n" + std::string(headers);
  if (!body.empty() || method == "POST") text += "Content-Length: " + std::to_string(body.size()) + "\r\n";
  return text + "\r\n" + std::string(body);
}

std::string chat_body(std::string_view extra, bool stream) {
  std::string body = R"({"messages":[{"role":"user","content":"hi"}])";
  if (stream) body += R"(,"stream":true)";
  if (!extra.empty()) body += "," + std::string(extra);
  return body + "}";
}

const std::shared_ptr<const text::Tokenizer>& mini_tokenizer() {
  static const auto tokenizer =
      std::make_shared<const text::Tokenizer>(text::Tokenizer::load(K3_SOURCE_DIR "/tools/mini/model").value());
  return tokenizer;
}

std::vector<std::int32_t> plain_output(std::string_view text) {
  const auto& tokenizer = *mini_tokenizer();
  const std::vector<text::Segment> segments{
      {"hm", false},       {"<|close|>", true},        {"think", false},           {"<|sep|><|open|>", true},
      {"response", false}, {"<|sep|>", true},          {std::string(text), false}, {"<|close|>", true},
      {"response", false}, {"<|sep|><|close|>", true}, {"message", false},         {"<|sep|><|end_of_msg|>", true}};
  return tokenizer.encode(segments).value();
}

}  // namespace k3::test
