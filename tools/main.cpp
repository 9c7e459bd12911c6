// The k3 program: picks the command, and turns what it says into an exit code. 0 fine, 1 failed, 2 called wrongly.
#include <fcntl.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>
#include <sys/resource.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <exception>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "tools/command.hpp"
#include "tools/environment.hpp"
#include "tools/input_output.hpp"

namespace k3::cli {

int report(const std::string& message) {
  std::fprintf(stderr, "k3: %s\n", message.c_str());
  return exit_failed;
}

int report(const Error& error) { return report(error.describe()); }

namespace {

// Switches that may stand alone: `--direct` is `--direct 1`. Without this the parser would take the word after it for their value.
std::vector<std::string> arguments_of(int count, char** values) {
  std::vector<std::string> out;
  for (int i = 1; i < count; ++i) {
    std::string argument = values[i];
    if (argument == "--direct" || argument == "--pipe") {
      const std::string next = i + 1 < count ? values[i + 1] : "";
      const auto is_value = [&](std::string_view value) { return next == value; };
      constexpr std::string_view known[] = {"0", "1", "true", "false"};
      // A number that is none of them was meant as one, and is refused as such.
      const bool number = !next.empty() && next.find_first_not_of("-.0123456789") == std::string::npos;
      if (!number && std::none_of(std::begin(known), std::end(known), is_value)) argument += "=1";
    }
    out.push_back(std::move(argument));
  }
  return out;
}

void describe(CLI::App& app) {
  app.set_version_flag("--version", std::string("k3 ") + K3_VERSION);
  app.require_subcommand(1);
  app.footer(
      "Examples:\n"
      "  k3 chat bundled                              talk to the small model that comes with k3\n"
      "  k3 serve /models/kimi-k3                     OpenAI-compatible server and web page on http://127.0.0.1:8080\n"
      "  k3 generate bundled --prompt 'Once upon'     continue a text\n"
      "  k3 doctor /models/kimi-k3                    what to expect of this machine with that model\n"
      "\n"
      "`k3 COMMAND --help` explains a command. A flag wins over its environment variable; a variable that the command has no flag\n"
      "for gets a warning. Exit codes: 0 fine, 1 failed, 2 called wrongly.");
}

int called_wrongly(const CLI::App& app, const CLI::Error& error, const std::vector<std::string>& arguments) {
  std::string message = error.what();
  if (error.get_name() != "UsageError") message += where_from(app, message, arguments);
  std::string command = "k3";
  for (auto chosen = app.get_subcommands(); !chosen.empty(); chosen = chosen.front()->get_subcommands()) {
    command += " " + chosen.front()->get_name();
  }
  std::fprintf(stderr, "k3: %s\nk3: see `%s --help`\n", message.c_str(), command.c_str());
  return exit_usage;
}

bool is_command(const CLI::App& app, const std::string& name) {
  return !app.get_subcommands([&](const CLI::App* command) { return command->get_name() == name; }).empty();
}

int unknown_command(const CLI::App& app, const std::string& name) {
  std::string known;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) known += " " + command->get_name();
  std::fprintf(stderr, "k3: there is no command '%s'; there are:%s\n", name.c_str(), known.c_str());
  return exit_usage;
}

void add_commands(CLI::App& app, Chosen& chosen) {
  add_serve(app, chosen);
  add_chat(app, chosen);
  add_generate(app, chosen);
  add_doctor(app, chosen);
  add_verify(app, chosen);
  add_repack(app, chosen);
  add_logits(app, chosen);
  add_tokenize(app, chosen);
  add_detokenize(app, chosen);
  add_render(app, chosen);
  add_parse(app, chosen);
  add_synth(app, chosen);
  add_bench(app, chosen);
}

// What a command printed may still be on its way; where it cannot be written, the command has failed.
int printed(int code) {
  if (code != exit_ok) return code;
  auto written = write_out("");
  return written.has_error() ? report(written.error()) : exit_ok;
}

// --help, --version
int print_asked(const CLI::App& app, const CLI::Success& asked) {
  std::ostringstream text;
  app.exit(asked, text, text);
  auto written = write_out(text.str());
  return written.has_error() ? report(written.error()) : exit_ok;
}

int run(int count, char** values) {
  CLI::App app("Runs the Kimi K3 language model on this machine.", "k3");
  Chosen chosen;
  describe(app);
  add_commands(app, chosen);

  std::vector<std::string> arguments = arguments_of(count, values);
  if (arguments.empty()) {
    std::fputs(app.help().c_str(), stderr);
    return exit_usage;
  }
  if (!arguments[0].starts_with('-') && !is_command(app, arguments[0])) return unknown_command(app, arguments[0]);
  try {
    const OtherVariables others(app, arguments);
    app.parse(std::vector<std::string>(arguments.rbegin(), arguments.rend()));  // the parser takes them from the back
    for (const std::string& warning : others.warnings()) std::fprintf(stderr, "k3: warning: %s\n", warning.c_str());
    return printed(chosen());
  } catch (const CLI::Success& asked) {
    return print_asked(app, asked);
  } catch (const CLI::Error& error) {
    return called_wrongly(app, error, arguments);
  }
}

// A standard stream that is closed would give its number to the next file opened, which then received what was meant for the
// stream. So each gets one that refuses: a read of an empty output, a write to an input.
void occupy_closed_streams() {
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(stream, F_GETFD) >= 0 || errno != EBADF) continue;
    // The lowest free number is the stream's, since those below it are taken.
    [[maybe_unused]] const int taken = ::open("/dev/null", stream == STDIN_FILENO ? O_WRONLY : O_RDONLY);
  }
}

// Every shard is open several times over, on each drive that has it; the usual soft limit is small for the sake of select(), which
// nothing here uses.
void raise_file_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);  // a refusal leaves what there was
}

}  // namespace
}  // namespace k3::cli

int main(int count, char** values) {
  k3::cli::occupy_closed_streams();
  k3::cli::raise_file_limit();
  // A file that grows past the process's limit would end the program without a word. Ignored, it is an error of the write like
  // others.
  std::signal(SIGXFSZ, SIG_IGN);
  try {
    // Standard output is for results: the library would log there.
    spdlog::set_default_logger(spdlog::stderr_color_mt("k3"));
    spdlog::set_pattern("%^%l%$: %v");
    spdlog::set_level(spdlog::level::warn);  // the server tells more, being watched by its log
    return k3::cli::run(count, values);
  } catch (const std::exception& error) {
    return k3::cli::report(std::string("unexpected: ") + error.what());
  }
}
