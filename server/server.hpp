// The HTTP server. It binds before the model loads, answers 503 until it is given one, and drains when told to stop.
//
//   auto server = Server::bind(options);            // a busy port fails here, before hours of loading
//   if (!server) ...;
//   (*server)->start();                             // own thread; /livez 200, /health and /readyz 503
//   fmt::print("listening on {}\n", (*server)->url());
//   auto actor = Actor::start(...);                 // slow
//   (*server)->set_model(std::move(actor), std::move(tokenizer));
//   return run_until_signal(**server);              // first SIGTERM/SIGINT/SIGHUP drains and returns 0; a second one kills the
//   process
//
// Destroy the Server before (or together with) what it was given; it keeps shared ownership of both.
#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "model/generation/sampling.hpp"
#include "model/text/chat_format.hpp"
#include "model/text/tokenizer.hpp"
#include "model/ticket.hpp"
#include "server/limits.hpp"

namespace k3::server {

// What keeps a silent stream alive. `comment` is ignored by every client that keeps to the standard; `delta`, an event whose delta
// is empty, is for clients that stumble over comments, or whose watchdog does not count them.
enum class PingStyle : std::uint8_t { comment, delta, off };
std::optional<PingStyle> ping_style(std::string_view name);

// What keeps an answer alive that is not streamed: `pad` sends the 200 early and a space now and then, `interim` (by its name
// "102") repeats 102 Processing, which leaves the status open but does not pass every proxy.
enum class Keepalive : std::uint8_t { pad, interim, off };
std::optional<Keepalive> keepalive(std::string_view name);
enum class LogFormat : std::uint8_t { text, json };

// What a chat may ask of the sampler. `moonshot`: the values of Moonshot's own endpoint of K3 and no others, so that answers can be
// compared with its; its streams then also tell usage on the choice that ends them, as it does.
enum class SamplingContract : std::uint8_t { open, moonshot };
std::optional<SamplingContract> sampling_contract(std::string_view name);

struct ServerOptions {
  std::string host = "127.0.0.1";  // a numeric address, or "localhost"
  std::uint16_t port = 8080;       // 0: a free one, see Server::port()
  bool tcp = true;                 // false: only the Unix socket
  // A further place to listen at, for its owner's processes: the file is made with mode 0600 and goes away with the server.
  std::filesystem::path unix_socket{};
  // PEM files. With both, the port speaks TLS (1.2 and up) and nothing else; the Unix socket stays in clear.
  std::filesystem::path tls_certificate{}, tls_key{};
  // Lines `NAME:KEY` (or just `KEY`); `#` starts a comment. Empty path: no key is asked for, and then only loopback may be bound.
  std::filesystem::path api_key_file;
  // Further names (without port) that a Host header may carry; loopback names always may. On a non-loopback bind, where a key
  // guards the server, any Host is taken unless this list is non-empty.
  std::vector<std::string> allowed_hosts;
  // Whose pages may use this server, as browsers name origins: "https://app.example". "*": all, which takes an API key file.
  std::vector<std::string> cors_origins{};
  bool half_close = false;  // a client that has shut its sending side is still there, and not gone
  bool lenient_unicode =
      false;  // a lone surrogate in a body becomes U+FFFD: one bad tool result would else spoil a conversation for ever
  bool metrics_public = false;  // GET /metrics without a key
  PingStyle ping_style = PingStyle::comment;
  std::chrono::milliseconds ping_interval{10'000};  // how long a stream may be silent; 0: as long as it likes
  Keepalive keepalive = Keepalive::pad;
  std::chrono::milliseconds hold{20'000};            // the status of an answer that is not streamed may still change for so long
  std::chrono::milliseconds drain_deadline{30'000};  // running answers may finish within it
  // For what a request does not say itself. The seed is of no use here: each request draws one.
  generation::Sampling sampling{};
  text::ThinkingDefault thinking{};
  SamplingContract sampling_contract = SamplingContract::open;  // where it says otherwise, it outranks `sampling`
  bool log_requests = true;                                     // a line per request, without bodies
  LogFormat log_format = LogFormat::text;
  std::filesystem::path log_file{};  // appended to; empty: text to spdlog's default logger, JSON to stderr
  Limits limits{};
  // A seam for tests: the time that pings, pads and graces go by. Empty: the steady clock.
  std::function<std::chrono::steady_clock::time_point()> clock{};
  // A seam for tests: called by the worker before it goes through a body, with a token that says that nobody waits any more.
  std::function<void(const std::stop_token&)> before_large_body{};
};

class Server {
 public:
  // Reads the key and TLS files, binds and listens. Errors: io (port in use, ...), invalid_argument (open bind without a key, bad
  // key, certificate or origin).
  static Result<std::unique_ptr<Server>> bind(ServerOptions options);
  // Stops at once if it still runs: cancels all answers and joins the thread.
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  std::uint16_t port() const;
  std::string url() const;  // "http://127.0.0.1:8080", "https://…" with TLS, "unix:PATH" without TCP

  void start();
  // From here on requests are answered. Any thread, after start(). Both must be non-null.
  void set_model(std::shared_ptr<Model> model, std::shared_ptr<const text::Tokenizer> tokenizer);

  // While the model loads: how long that may still take, for those who ask in vain. Any thread, after start().
  void set_load_left(std::chrono::seconds left);

  // New requests get 503 with Retry-After; running ones may finish until the deadline, then they are cancelled. Returns at once;
  // any thread, any number of times (a later call may shorten the deadline).
  void drain(std::chrono::milliseconds deadline);
  // For tests with a clock of their own: whoever waits for a time looks at it again. Any thread.
  void look_at_clock();
  // Until the server has ended, after drain().
  void wait();

 private:
  friend int run_until_signal(Server& server);
  struct State;
  explicit Server(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

// Blocks until SIGTERM, SIGINT or SIGHUP has been received and the server has drained (ServerOptions::drain_deadline); returns 0.
// A SIGHUP that the process ignores (nohup) stays ignored. The next one ends the process at once, as its
// default action does, but not without taking the Unix socket's file away. Before this call (while the model loads) signals have
// whatever action the process gave them.
int run_until_signal(Server& server);

}  // namespace k3::server
