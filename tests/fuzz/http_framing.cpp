// Requests as bytes on a connection, built of the parts that make servers stumble: whatever they are, the answers are whole
// responses of known statuses, in order, and the server goes on. A first byte below 128 says that the rest is a script that builds
// requests; otherwise the rest is sent as it is.
#include <spdlog/spdlog.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>

#include "model/text/tokenizer.hpp"
#include "server/server.hpp"

using namespace k3;

namespace {

// Answers each job with two tokens, at once.
class QuickModel : public Model {
 public:
  Result<void> submit(Job job, std::shared_ptr<Ticket> ticket) override {
    ticket->push(Prefill{job.prompt.size(), job.prompt.size(), 0});
    for (int i = 0; i < 2; ++i) ticket->push(Token{65});
    ticket->push(Finished{FinishReason::length, job.prompt.size(), 0, 2, {}});
    return {};
  }
  ModelInfo info() const override { return {.id = "quick", .context_limit = 1000, .vocabulary = 1794, .fingerprint = "f"}; }
  ModelStatus status() const override { return {}; }
};

struct World {
  World() {
    spdlog::set_level(spdlog::level::off);
    server::ServerOptions options;
    options.tcp = false;
    options.unix_socket = path;
    options.log_requests = false;
    options.half_close = true;
    options.limits.body_bytes = 40'000;
    options.limits.header_bytes = 2048;
    options.limits.bodies_bytes = 400'000;
    options.limits.linger = std::chrono::milliseconds(20);
    server = server::Server::bind(options).value();
    server->start();
    auto tokenizer = text::Tokenizer::load(K3_SOURCE_DIR "/tools/mini/model").value();
    server->set_model(std::make_shared<QuickModel>(), std::make_shared<const text::Tokenizer>(std::move(tokenizer)));
  }
  std::string path = "/tmp/k3_fuzz_http_" + std::to_string(::getpid());
  std::unique_ptr<server::Server> server;
};

[[noreturn]] void complain(const char* what, std::string_view sent, std::string_view got) {
  std::fprintf(stderr, "%s\n--- sent\n%.*s\n--- got\n%.*s\n", what, static_cast<int>(sent.size()), sent.data(),
               static_cast<int>(got.size()), got.data());
  std::abort();
}

std::string talk(const std::string& path, std::string_view bytes) {
  const int socket = ::socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof address.sun_path - 1);
  // Whoever waits this long waits for ever.
  const timeval patience{.tv_sec = 20, .tv_usec = 0};
  ::setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  if (::connect(socket, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) complain("cannot connect", bytes, {});
  for (std::string_view rest = bytes; !rest.empty();) {
    const auto sent = ::send(socket, rest.data(), rest.size(), MSG_NOSIGNAL);
    if (sent <= 0) break;
    rest.remove_prefix(static_cast<std::size_t>(sent));
  }
  ::shutdown(socket, SHUT_WR);
  std::string got;
  char block[65536];
  for (;;) {
    const auto count = ::recv(socket, block, sizeof block, 0);
    if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) complain("the server hangs", bytes, got);
    if (count <= 0) break;
    got.append(block, static_cast<std::size_t>(count));
  }
  ::close(socket);
  return got;
}

bool is_expected(int status) {
  for (const int known : {100, 200, 204, 400, 403, 404, 405, 408, 411, 413, 415, 417, 431, 503, 505}) {
    if (status == known) return true;
  }
  return false;
}

std::string_view value_of(std::string_view head, std::string_view name) {
  const std::size_t at = head.find("\r\n" + std::string(name) + ": ");
  if (at == std::string_view::npos) return {};
  const std::string_view rest = head.substr(at + name.size() + 4);
  return rest.substr(0, rest.find("\r\n"));
}

// Takes the body of the response whose head is `head` off the front of `rest`; false if it is not there as announced.
bool take_body(std::string_view head, std::string_view& rest) {
  if (value_of(head, "Transfer-Encoding") == "chunked") {
    for (;;) {
      const std::size_t line = rest.find("\r\n");
      if (line == std::string_view::npos) return false;
      const std::size_t size = std::strtoul(std::string(rest.substr(0, line)).c_str(), nullptr, 16);
      if (rest.size() < line + 2 + size + 2) return false;
      rest.remove_prefix(line + 2 + size + 2);
      if (size == 0) return true;
    }
  }
  const std::string_view length = value_of(head, "Content-Length");
  if (length.empty()) {
    // To the end: then it must be the last.
    if (value_of(head, "Connection") != "close") return false;
    rest = {};
    return true;
  }
  const std::size_t size = std::strtoul(std::string(length).c_str(), nullptr, 10);
  if (rest.size() < size) return false;
  rest.remove_prefix(size);
  return true;
}

// The responses as a client would read them; `heads` asked for no body, one bit a request, as far as that is known.
std::string read_responses(std::string_view sent, std::string_view all, bool any_head) {
  std::string statuses;
  for (std::string_view rest = all; !rest.empty();) {
    const std::size_t end = rest.find("\r\n\r\n");
    if (end == std::string_view::npos || !rest.starts_with("HTTP/1.1 ")) complain("this is no response", sent, all);
    const std::string_view head = rest.substr(0, end + 2);
    const int status = std::atoi(std::string(rest.substr(9, 3)).c_str());
    if (!is_expected(status)) complain("a status that should not be", sent, all);
    rest.remove_prefix(end + 4);
    if (status == 100) continue;
    statuses += std::to_string(status) + " ";
    const bool bodiless = status == 204 || (any_head && (rest.empty() || rest.starts_with("HTTP/1.1 ")));
    if (!bodiless && !take_body(head, rest)) complain("a body is not as announced", sent, all);
  }
  return statuses;
}

// Reads the fuzzer's bytes as choices; at their end all choices are the first.
class Script {
 public:
  Script(const std::uint8_t* data, std::size_t size) : data_(data), size_(size) {}
  bool ended() const { return at_ == size_; }
  std::size_t choose(std::size_t count) { return ended() ? 0 : data_[at_++] % count; }
  template <std::size_t N>
  std::string_view pick(const std::string_view (&list)[N]) {
    return list[choose(N)];
  }

 private:
  const std::uint8_t* data_;
  std::size_t size_, at_ = 0;
};

constexpr std::string_view kTargets[] = {
    "/health", "/livez", "/tokenize", "/v1/chat/completions", "/v1/completions", "/v1/models", "http://localhost/livez", "*",
    "/%41",    "/%zz",   "/%00",      "/nowhere?x=1"};
constexpr std::string_view kMethods[] = {"GET", "POST", "HEAD", "OPTIONS", "DELETE", "get", "G T", ""};
constexpr std::string_view kVersions[] = {"HTTP/1.1", "HTTP/1.0", "HTTP/2.0", "HTTP/1.2", "HTTP/x", ""};
constexpr std::string_view kFields[] = {"X: 1",
                                        "Content-Length: 0",
                                        "Content-Length: 5",
                                        "Content-Length: +5",
                                        "Content-Length: 99999999999999999999",
                                        "Content-Length: 50000",
                                        "Transfer-Encoding: chunked",
                                        "Transfer-Encoding: gzip, chunked",
                                        "Transfer-Encoding : chunked",
                                        "Connection: close",
                                        "Connection: keep-alive",
                                        "Host: localhost",
                                        "Host: evil.example",
                                        "Expect: 100-continue",
                                        "Expect: more",
                                        "Content-Encoding: gzip",
                                        "Origin: https://evil.example",
                                        " folded",
                                        "no colon",
                                        "X-Request-Id: \xff\x01",
                                        "X-Request-Id: mine"};
constexpr std::string_view kEnds[] = {"\r\n", "\r\n", "\r\n", "\n", "\r", ""};
constexpr std::string_view kPieces[] = {"0\r\n\r\n",           "5\r\nhello\r\n", "5;x=\"y\"\r\nhello\r\n",      "5\r\nhello",
                                        "fffffffffffffff\r\n", "-1\r\n",         "0\r\nTrailer: 1\r\n\r\n",     "hello",
                                        "{\"content\":\"x\"}", "\r\n",           "GET /livez HTTP/1.1\r\n\r\n", "\n"};

// Anything, of the parts above.
std::string strange_request(Script& script) {
  std::string text;
  text += std::string(script.pick(kMethods)) + " " + std::string(script.pick(kTargets)) + " " + std::string(script.pick(kVersions));
  text += script.pick(kEnds);
  if (script.choose(4) != 0) text += "Host: localhost\r\n";
  for (std::size_t fields = script.choose(5); fields > 0; --fields)
    text += std::string(script.pick(kFields)) + std::string(script.pick(kEnds));
  if (script.choose(16) == 1) text += "X: " + std::string(3000, 'x') + "\r\n";
  text += script.pick(kEnds);
  for (std::size_t pieces = script.choose(5); pieces > 0; --pieces) text += script.pick(kPieces);
  return text;
}

// A right request with its body cut into chunks as the script says, and the status it must have.
std::string right_request(Script& script, std::string& expected) {
  const std::string body = R"({"content":"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n"})";
  std::string text = script.choose(3) == 0 ? "\r\n" : "";
  switch (script.choose(4)) {
    case 0:
      expected += "200 ";
      return text + "GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n";
    case 1:
      expected += "404 ";
      return text + "POST /nowhere HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n";
    case 2:
      expected += "200 ";
      return text + "POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" +
             body;
    default:
      break;
  }
  expected += "200 ";
  text += "POST /tokenize HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n";
  for (std::string_view rest = body; !rest.empty();) {
    const std::string_view piece = rest.substr(0, script.choose(20) + 1);
    char size[32];
    std::snprintf(size, sizeof size, script.choose(2) == 0 ? "%zx" : "00%zX", piece.size());
    text += std::string(size) + (script.choose(3) == 1 ? ";name=\"value\"" : "") + "\r\n" + std::string(piece) + "\r\n";
    rest.remove_prefix(piece.size());
  }
  return text + (script.choose(2) == 0 ? "0\r\n\r\n" : "0\r\nX-Trailer: 1\r\n\r\n");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static World world;
  if (size == 0) return 0;
  Script script(data + 1, size - 1);
  std::string bytes, expected;
  if (data[0] >= 128) {
    bytes.assign(reinterpret_cast<const char*>(data) + 1, size - 1);
  } else if (data[0] >= 64) {
    while (!script.ended()) bytes += right_request(script, expected);
  } else {
    while (!script.ended()) bytes += strange_request(script);
  }
  const std::string got = talk(world.path, bytes);
  const std::string statuses = read_responses(bytes, got, bytes.find("HEAD") != std::string::npos);
  if (!expected.empty() && statuses != expected) complain(("expected " + expected).c_str(), bytes, got);
  return 0;
}
