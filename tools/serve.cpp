// `k3 serve`: the HTTP server. The port is taken before the model loads, so that a busy one fails at once and not after an hour.
#include <spdlog/spdlog.h>
#include <sys/resource.h>
#include <unistd.h>

#include <CLI/Option.hpp>
#include <CLI/Validators.hpp>
#include <charconv>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <memory>

#include "server/request_log.hpp"
#include "server/server.hpp"
#include "tools/command.hpp"
#include "tools/common_flags.hpp"
#include "tools/session.hpp"
#include "tools/thinking_flags.hpp"

namespace k3::cli {
namespace {

using Clock = std::chrono::steady_clock;

struct Flags {
  EngineFlags engine;
  SamplingFlags sampling;
  ThinkFlag think;
  std::string host = "127.0.0.1";
  std::uint16_t port = 8080;
  std::string api_key_file, id, unix_socket, tls_cert, tls_key, log_format = "text", log_file;
  std::vector<std::string> allowed_hosts, cors_origins;
  bool unix_only = false, half_close = false, metrics_public = false, lenient_unicode = false;
  server::Limits limits;
  std::size_t queue = 16, parallel = 2;
  double ping_s = 10, hold_s = 20, drain_s = 30;
  std::string ping_style = "comment", keepalive = "pad", sampling_contract = "open";
};

// Finite: a NaN is in every range, as it compares false with both ends.
CLI::Validator seconds_up_to(double high) {
  return {[high](std::string& value) -> std::string {
            double number = 0;
            const auto [end, status] = std::from_chars(value.data(), value.data() + value.size(), number);
            if (status == std::errc{} && end == value.data() + value.size() && number >= 0 && number <= high) return {};
            return "'" + value + "' is not a number of seconds from 0 to " + std::to_string(static_cast<int>(high));
          },
          "SECONDS"};
}

text::ThinkingDefault thinking(const ThinkFlag& flag) {
  text::ThinkingDefault result;
  result.on = flag.value != "off";
  if (flag.value == "low") result.effort = text::Effort::low;
  if (flag.value == "high") result.effort = text::Effort::high;
  return result;
}

std::chrono::milliseconds milliseconds(double seconds) {
  return std::chrono::milliseconds(static_cast<std::int64_t>(seconds * 1000));
}

// While the model loads there is nothing to drain: being told to stop ends the process at once, and is no failure. The server's own
// handling replaces this once it runs.
void end_while_loading(int) { _exit(0); }

// As many descriptors as the system lets this process have; and a word if connections could use them up.
void raise_file_limit(const server::Limits& limits) {
  rlimit files{};
  if (::getrlimit(RLIMIT_NOFILE, &files) != 0) return;
  files.rlim_cur = files.rlim_max;
  static_cast<void>(::setrlimit(RLIMIT_NOFILE, &files));
  constexpr std::size_t kForTheModel = 256;
  if (files.rlim_max < limits.connections + kForTheModel) {
    spdlog::warn("only {} files may be open (ulimit -n), fewer than --max-connections {} may need", files.rlim_max,
                 limits.connections);
  }
}

server::ServerOptions server_options(const Flags& flags) {
  server::ServerOptions options;
  options.host = flags.host;
  options.port = flags.port;
  options.tcp = !flags.unix_only;
  options.unix_socket = flags.unix_socket;
  options.tls_certificate = flags.tls_cert;
  options.tls_key = flags.tls_key;
  options.api_key_file = flags.api_key_file;
  options.allowed_hosts = flags.allowed_hosts;
  options.cors_origins = flags.cors_origins;
  options.half_close = flags.half_close;
  options.metrics_public = flags.metrics_public;
  options.lenient_unicode = flags.lenient_unicode;
  options.log_format = flags.log_format == "json" ? server::LogFormat::json : server::LogFormat::text;
  options.log_file = flags.log_file;
  options.ping_interval = milliseconds(flags.ping_s);
  options.ping_style = server::ping_style(flags.ping_style).value_or(options.ping_style);
  options.hold = milliseconds(flags.hold_s);
  options.keepalive = server::keepalive(flags.keepalive).value_or(options.keepalive);
  options.drain_deadline = milliseconds(flags.drain_s);
  options.sampling = sampling(flags.sampling);
  options.thinking = thinking(flags.think);
  options.sampling_contract = server::sampling_contract(flags.sampling_contract).value_or(options.sampling_contract);
  options.limits = flags.limits;
  return options;
}

int serve(const Flags& flags) {
  spdlog::set_level(spdlog::level::info);
  // Whoever has read the log so far may leave; the clients shall not notice.
  std::signal(SIGPIPE, SIG_IGN);
  if (flags.log_format == "json") server::make_messages_json();
  raise_file_limit(flags.limits);
  if (!consistent(flags.limits)) return report("--max-connections-per-address is more than --max-connections");
  auto model_flags = model_options(flags.engine);
  if (model_flags.has_error()) return report(model_flags.error());
  if (!flags.id.empty()) model_flags->id = flags.id;
  model_flags->queue_capacity = flags.queue;
  model_flags->parallel = flags.parallel;
  show_load_progress(*model_flags);

  auto server = server::Server::bind(server_options(flags));
  if (server.has_error()) return report(server.error());
  (*server)->start();
  std::printf("listening on %s\n", (*server)->url().c_str());
  std::fflush(stdout);

  std::signal(SIGTERM, end_while_loading);
  model_flags->load_progress = [&server, show = std::move(model_flags->load_progress), begin = std::optional<Clock::time_point>()](
                                   std::uint64_t done, std::uint64_t total) mutable {
    show(done, total);
    if (!begin) begin = Clock::now();
    if (done == 0) return;
    const double left = static_cast<double>(total - done) / static_cast<double>(done);
    (*server)->set_load_left(std::chrono::ceil<std::chrono::seconds>((Clock::now() - *begin) * left));
  };
  // Under nohup a hang-up is ignored, and stays so.
  if (std::signal(SIGHUP, end_while_loading) == SIG_IGN) std::signal(SIGHUP, SIG_IGN);
  auto tokenizer = text::Tokenizer::load(model_flags->directory);
  if (tokenizer.has_error()) return report(tokenizer.error());
  auto actor = Actor::start(*model_flags);
  if (actor.has_error()) return report(actor.error());
  std::fprintf(stderr, "ready: %s\n", (*actor)->info().id.c_str());
  (*server)->set_model(std::shared_ptr<Model>(std::move(actor).value()),
                       std::make_shared<const text::Tokenizer>(std::move(tokenizer).value()));
  return server::run_until_signal(**server);
}

// Answers take minutes to hours, and most clients, and all proxies, take silence for death.
void add_liveness_flags(CLI::App& command, Flags& flags) {
  constexpr const char* group = "Server";
  command.add_option("--ping-seconds,--ping", flags.ping_s, "seconds between signs of life on a silent stream; 0: none")
      ->check(seconds_up_to(3600))
      ->capture_default_str()
      ->group(group);
  command
      .add_option("--ping-style", flags.ping_style,
                  "what they are: comment (as the standard has it), delta (an event with an empty delta, for clients that stumble "
                  "over comments or do not count them), off")
      ->check(CLI::IsMember({"comment", "delta", "off"}))
      ->capture_default_str()
      ->group(group);
  command
      .add_option(
          "--nonstream-keepalive", flags.keepalive,
          "what keeps an answer alive that is not streamed: pad (an early 200, then a space every 10 s; a failure after that "
          "cuts the body off), 102 (repeats 102 Processing, which some proxies drop), off")
      ->check(CLI::IsMember({"pad", "102", "off"}))
      ->capture_default_str()
      ->group(group);
  command.add_option("--nonstream-hold", flags.hold_s, "seconds before that begins; until then a failure has its own status")
      ->check(seconds_up_to(3600))
      ->capture_default_str()
      ->group(group);
}

void add_door_flags(CLI::App& command, Flags& flags, const char* group) {
  const auto add = [&](const char* name, auto& value, const char* what) {
    return command.add_option(name, value, what)->group(group);
  };
  auto* unix_socket = add("--unix", flags.unix_socket, "listen at this Unix socket too, for this user's processes only");
  add_switch(command, "--unix-only", flags.unix_only, "listen at the Unix socket and at no port")->needs(unix_socket)->group(group);
  auto* certificate = add("--tls-cert", flags.tls_cert, "PEM file with the certificate and its chain: the port speaks TLS then");
  auto* key = add("--tls-key", flags.tls_key, "PEM file with the certificate's key, without password")->needs(certificate);
  certificate->needs(key);
  add("--api-key-file", flags.api_key_file, "file with the keys clients must send, `NAME:KEY` or `KEY` a line, # comments");
  add("--allowed-host", flags.allowed_hosts, "a further name clients may call this server by; repeatable")->allow_extra_args(false);
  add("--cors-origin", flags.cors_origins, "web pages of this origin may use the server, such as https://app.example; repeatable")
      ->allow_extra_args(false);
  add_switch(command, "--lenient-unicode", flags.lenient_unicode,
             "half a surrogate pair in a body becomes U+FFFD; else such a body, which cannot be read as text, is answered 400")
      ->group(group);
  add_switch(command, "--half-close", flags.half_close, "a client that has shut its sending side still waits for its answer")
      ->group(group);
  add_switch(command, "--metrics-public", flags.metrics_public, "GET /metrics without a key")->group(group);
  add("--log-format", flags.log_format, "of the line for each request, and of messages: text or json")
      ->check(CLI::IsMember({"text", "json"}))
      ->capture_default_str();
  add("--log-file", flags.log_file, "the lines for requests are appended to this file, instead of going to stderr");
  add("--max-connections", flags.limits.connections, "open at a time; more are answered 503")
      ->check(whole_number(1, 1'000'000))
      ->capture_default_str();
  add("--max-per-key", flags.limits.answers_per_key, "answers of one API key that run or wait; more are answered 429")
      ->check(whole_number(1, 1024))
      ->capture_default_str();
  add("--max-connections-per-address", flags.limits.connections_per_address, "of them, by one address")
      ->check(whole_number(1, 1'000'000))
      ->capture_default_str();
}

void add_contract_flag(CLI::App& command, Flags& flags) {
  command
      .add_option(
          "--sampling-contract", flags.sampling_contract,
          "open: requests choose freely; moonshot: as Moonshot's own endpoint, chats get temperature 1 (without thinking 0.6 and "
          "0 may be asked for), top_p 0.95 and no penalties, and any other value is answered 400")
      ->check(CLI::IsMember({"open", "moonshot"}))
      ->envname("K3_SAMPLING_CONTRACT")
      ->capture_default_str()
      ->group("Sampling");
}

// What the contract fixes, a flag cannot choose. A variable that stays set for a whole shell is only warned of.
void check_contract(const CLI::App& command, const Flags& flags) {
  if (flags.sampling_contract != "moonshot") return;
  if (flags.sampling.top_p) throw usage_error("--top-p has no effect with --sampling-contract moonshot");
  if (!flags.sampling.temperature) return;
  const CLI::Option* temperature = command.get_option("--temperature");
  if (std::getenv(temperature->get_envname().c_str()) == nullptr)
    throw usage_error("--temperature has no effect with --sampling-contract moonshot");
  std::fprintf(stderr, "k3: warning: %s has no effect with --sampling-contract moonshot\n", temperature->get_envname().c_str());
}

}  // namespace

void add_serve(CLI::App& app, Chosen& chosen) {
  auto flags = std::make_shared<Flags>();
  CLI::App* command = app.add_subcommand("serve", "OpenAI-compatible HTTP server with a web page");
  add_engine_flags(*command, flags->engine);
  constexpr const char* group = "Server";
  command->add_option("--host", flags->host, "address to listen on; other than this machine's own only with --api-key-file")
      ->capture_default_str()
      ->group(group);
  command->add_option("--port", flags->port, "0: a free one, which is printed")
      ->check(whole_number(0, 65535))
      ->capture_default_str()
      ->group(group);
  add_door_flags(*command, *flags, group);
  command->add_option("--id", flags->id, "the model's name for clients; default: its directory's")->group(group);
  command
      ->add_option(
          "--parallel", flags->parallel,
          "conversations that run together and share what is read for them; fewer where memory has no room for their states")
      ->check(whole_number(1, 64))
      ->capture_default_str()
      ->group(group);
  command->add_option("--queue", flags->queue, "requests that may wait; more are answered 429")
      ->check(whole_number(1, 1024))
      ->capture_default_str()
      ->group(group);
  add_liveness_flags(*command, *flags);
  command->add_option("--drain,--drain-seconds", flags->drain_s, "seconds that running answers may take after SIGTERM")
      ->check(seconds_up_to(86400))
      ->capture_default_str()
      ->group(group);
  add_think_flag(*command, flags->think);
  add_contract_flag(*command, *flags);
  add_sampling_flags(*command, flags->sampling);
  // One seed for all would answer the same to whoever asks again.
  command->remove_option(command->get_option("--seed"));
  command->footer(
      "Prints `listening on http://HOST:PORT` when the port is taken; /health answers 503 until the model is loaded.\n"
      "SIGTERM, Ctrl-C and a terminal that closes let running answers finish (--drain), a second one ends at once.\n"
      "A request may choose for itself: sse_ping_style and sse_ping_interval in its body, X-Keepalive: pad, 102 or off in its "
      "head.\n"
      "--think and the sampling flags hold for requests that do not say; what a request says wins.\n"
      "Examples:\n"
      "  k3 serve bundled\n"
      "  curl -N http://127.0.0.1:8080/v1/chat/completions -H 'Content-Type: application/json' \\\n"
      "    -d '{\"messages\":[{\"role\":\"user\",\"content\":\"What is the capital of "
      "France?\"}],\"stream\":true,\"temperature\":0}'");
  command->callback([command, flags, &chosen] {
    check_contract(*command, *flags);
    chosen = [flags] { return serve(*flags); };
  });
}

}  // namespace k3::cli
