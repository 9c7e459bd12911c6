// `k3 serve`: the HTTP server. The port is taken before the model loads, so that a busy one fails at once and not after an hour.
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <CLI/Option.hpp>
#include <CLI/Validators.hpp>
#include <charconv>
#include <csignal>
#include <cstdio>
#include <memory>

#include "server/server.hpp"
#include "tools/command.hpp"
#include "tools/common_flags.hpp"
#include "tools/session.hpp"

namespace k3::cli {
namespace {

struct Flags {
  EngineFlags engine;
  SamplingFlags sampling;
  ThinkFlag think;
  std::string host = "127.0.0.1";
  std::uint16_t port = 8080;
  std::string api_key_file, id;
  std::vector<std::string> allowed_hosts;
  std::size_t queue = 16, parallel = 2;
  double ping_s = 10, hold_s = 20, drain_s = 30;
  std::string ping_style = "comment", keepalive = "pad";
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

int serve(const Flags& flags) {
  spdlog::set_level(spdlog::level::info);
  auto model_flags = model_options(flags.engine);
  if (model_flags.has_error()) return report(model_flags.error());
  if (!flags.id.empty()) model_flags->id = flags.id;
  model_flags->queue_capacity = flags.queue;
  model_flags->parallel = flags.parallel;
  show_load_progress(*model_flags);

  server::ServerOptions options;
  options.host = flags.host;
  options.port = flags.port;
  options.api_key_file = flags.api_key_file;
  options.allowed_hosts = flags.allowed_hosts;
  options.ping_interval = milliseconds(flags.ping_s);
  options.ping_style = server::ping_style(flags.ping_style).value_or(options.ping_style);
  options.hold = milliseconds(flags.hold_s);
  options.keepalive = server::keepalive(flags.keepalive).value_or(options.keepalive);
  options.drain_deadline = milliseconds(flags.drain_s);
  options.sampling = sampling(flags.sampling);
  options.thinking = thinking(flags.think);
  auto server = server::Server::bind(std::move(options));
  if (server.has_error()) return report(server.error());
  (*server)->start();
  std::printf("listening on %s\n", (*server)->url().c_str());
  std::fflush(stdout);

  std::signal(SIGTERM, end_while_loading);
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
  command->add_option("--api-key-file", flags->api_key_file, "file with the keys clients must send, `NAME KEY` a line")
      ->group(group);
  command->add_option("--allowed-host", flags->allowed_hosts, "a further name clients may call this server by; repeatable")
      ->group(group);
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
  command->add_option("--drain", flags->drain_s, "seconds that running answers may take after SIGTERM")
      ->check(seconds_up_to(86400))
      ->capture_default_str()
      ->group(group);
  add_think_flag(*command, flags->think);
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
  command->callback([flags, &chosen] { chosen = [flags] { return serve(*flags); }; });
}

}  // namespace k3::cli
