// `k3 bench estimates`: how near the time that the server tells before a request comes to what the request then takes. All of it
// goes over HTTP, as a client's would.
#include <fmt/format.h>

#include <CLI/Option.hpp>
#include <algorithm>
#include <boost/asio/ip/tcp.hpp>
#include <cmath>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "server/server.hpp"
#include "tools/bench.hpp"
#include "tools/bench_grammar_cases.hpp"
#include "tools/bench_machine.hpp"
#include "tools/common_flags.hpp"
#include "tools/input_output.hpp"
#include "tools/session.hpp"

namespace k3::cli {
namespace {

constexpr std::size_t first_requests = 4;  // not judged: before them the server knows nothing

struct Flags {
  EngineFlags engine;
  std::size_t requests = 20, prompt = 600, answer = 64;
  bool json = false;
};

struct Asked {
  std::size_t prompt_tokens = 0, answer_tokens = 0;
  double told = 0, took = 0;  // seconds

  double error() const { return std::abs(told - took) / took; }
};

// One request on a connection of its own.
Result<json::Value> post(std::uint16_t port, const std::string& path, const std::string& body) {
  boost::asio::ip::tcp::iostream stream("127.0.0.1", std::to_string(port));
  if (!stream) return fail(ErrorCode::io, "cannot connect: " + stream.error().message());
  stream << "POST " << path << " HTTP/1.0\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nX-Keepalive: off\r\n"
         << "Content-Length: " << body.size() << "\r\n\r\n"
         << body << std::flush;
  const std::string reply{std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
  const std::size_t end = reply.find("\r\n\r\n");
  if (end == std::string::npos) return fail(ErrorCode::io, "no answer from " + path);
  const std::size_t space = reply.find(' ');
  if (reply.compare(space + 1, 3, "200") != 0) return fail(ErrorCode::internal, path + " answered " + reply.substr(end + 4));
  return json::parse(std::string_view(reply).substr(end + 4));
}

double number_at(const json::Value& value, std::initializer_list<std::string_view> path) {
  const json::Value* at = &value;
  for (const std::string_view name : path) {
    if (at != nullptr) at = at->find(name);
  }
  return at == nullptr || !at->is_number() ? 0 : at->as_double().value();
}

// Lengths are drawn evenly on a logarithmic axis: conversations go on by a sentence as well as by a file.
std::size_t drawn_length(BenchRandom& random, std::size_t most) {
  constexpr double steps = 1e6;
  const double share = static_cast<double>(random.below(static_cast<std::size_t>(steps))) / steps;
  const double least = std::min(8.0, static_cast<double>(most));
  return static_cast<std::size_t>(least * std::pow(static_cast<double>(most) / least, share));
}

// A question that no other begins like, so that nothing of it is computed already.
std::string drawn_body(BenchRandom& random, const Flags& flags) {
  std::string words;
  const std::size_t length = drawn_length(random, flags.prompt);
  for (std::size_t i = 0; i < length; ++i)
    words += fmt::format("{}{:c}", i == 0 ? "" : " ", static_cast<char>('a' + random.below(26)));
  std::string body;
  json::Writer writer(body);
  writer.begin_object();
  writer.key("max_tokens").integer(static_cast<std::int64_t>(drawn_length(random, flags.answer)));
  writer.key("messages").begin_array().begin_object();
  writer.key("role").string("user").key("content").string(words);
  writer.end_object().end_array().end_object();
  return body;
}

Result<Asked> ask(std::uint16_t port, const std::string& body) {
  const auto count = post(port, "/v1/chat/completions/input_tokens", body);
  if (!count) return count.error();
  const double begun = seconds_now();
  const auto answer = post(port, "/v1/chat/completions", body);
  if (!answer) return answer.error();
  Asked asked;
  asked.took = seconds_now() - begun;
  const double tokens = number_at(*answer, {"usage", "completion_tokens"});
  asked.answer_tokens = static_cast<std::size_t>(tokens);
  asked.prompt_tokens = static_cast<std::size_t>(number_at(*count, {"input_tokens"}));
  // The first token comes with the prompt's end.
  asked.told = number_at(*count, {"estimated_seconds", "prompt"}) +
               number_at(*count, {"estimated_seconds", "per_100_answer_tokens"}) * std::max(tokens - 1, 0.0) / 100;
  return asked;
}

double median_error(const std::vector<Asked>& all) {
  std::vector<double> errors;
  for (const Asked& asked : all) errors.push_back(asked.error());
  return median(errors);
}

std::string as_json(const std::vector<Asked>& all) {
  std::string out;
  json::Writer writer(out);
  writer.begin_object().key("results").begin_array().begin_object();
  writer.key("name").string("estimates");
  writer.key("median_error").number(median_error(all));
  writer.key("requests").begin_array();
  for (const Asked& asked : all) {
    writer.begin_object();
    writer.key("prompt_tokens").integer(static_cast<std::int64_t>(asked.prompt_tokens));
    writer.key("answer_tokens").integer(static_cast<std::int64_t>(asked.answer_tokens));
    writer.key("told_s").number(asked.told).key("took_s").number(asked.took);
    writer.end_object();
  }
  writer.end_array().end_object().end_array().end_object();
  return out + "\n";
}

void print(const std::vector<Asked>& all) {
  fmt::print("{:>8}{:>8}{:>12}{:>12}{:>10}\n", "prompt", "answer", "told s", "took s", "error");
  for (const Asked& asked : all) {
    fmt::print("{:>8}{:>8}{:>12.3f}{:>12.3f}{:>8.0f} %\n", asked.prompt_tokens, asked.answer_tokens, asked.told, asked.took,
               100 * asked.error());
  }
  fmt::print("median error {:.0f} %, over {} requests\n", 100 * median_error(all), all.size());
}

Result<std::unique_ptr<server::Server>> serve(const EngineFlags& flags) {
  auto options = model_options(flags);
  if (!options) return options.error();
  server::ServerOptions doors;
  doors.port = 0;
  doors.log_requests = false;
  auto server = server::Server::bind(std::move(doors));
  if (!server) return server.error();
  show_load_progress(*options);
  auto tokenizer = text::Tokenizer::load(options->directory);
  if (!tokenizer) return tokenizer.error();
  auto model = Actor::start(*options);
  if (!model) return model.error();
  (*server)->start();
  (*server)->set_model(std::shared_ptr<Model>(std::move(model).value()),
                       std::make_shared<const text::Tokenizer>(std::move(tokenizer).value()));
  return server;
}

int bench_estimates(const Flags& flags) {
  auto server = serve(flags.engine);
  if (!server) return report(server.error());
  BenchProgress progress;
  BenchRandom random(11);
  std::vector<Asked> all;
  for (std::size_t i = 0; i < first_requests + flags.requests; ++i) {
    progress.tell("asking", fmt::format("{} of {}", i + 1, first_requests + flags.requests));
    const auto asked = ask((*server)->port(), drawn_body(random, flags));
    if (!asked) return report(asked.error());
    if (i >= first_requests) all.push_back(*asked);
  }
  if (!flags.json) {
    print(all);
    return exit_ok;
  }
  const auto written = write_out(as_json(all));
  return written.has_error() ? report(written.error()) : int{exit_ok};
}

}  // namespace

void add_bench_estimates(CLI::App& bench, Chosen& chosen) {
  auto flags = std::make_shared<Flags>();
  CLI::App* command = bench.add_subcommand("estimates", "how near the time told before a request comes to the time it takes");
  add_engine_flags(*command, flags->engine);
  const auto add = [&](const char* name, std::size_t& value, std::uint64_t most, const char* what) {
    command->add_option(name, value, what)->check(whole_number(1, most))->capture_default_str();
  };
  add("--requests", flags->requests, 10000, "how many are judged, after four from which the server learns");
  add("--prompt", flags->prompt, 100'000, "words of the longest prompt; the shortest has eight");
  add("--answer", flags->answer, 10000, "tokens of the longest answer");
  command->add_flag("--json", flags->json, "one object instead of a table");
  command->footer(
      "Asks POST /v1/chat/completions/input_tokens first, then the same of /v1/chat/completions, one after the other, and "
      "compares\n"
      "the estimate for the prompt and for as many tokens as the answer had with the time until the answer was there.\n"
      "Example:\n"
      "  k3 bench estimates bundled");
  command->callback([flags, &chosen] { chosen = [flags] { return bench_estimates(*flags); }; });
}

}  // namespace k3::cli
