// `k3 chat`: a conversation in the terminal. The model is loaded once; what was said, thinking included, stays in the prompt, so
// that each turn continues the state the model already has.
#include <unistd.h>

#include <CLI/Option.hpp>
#include <CLI/Validators.hpp>
#include <cerrno>
#include <cstdio>
#include <memory>
#include <optional>

#include "model/text/utf8.hpp"
#include "tools/command.hpp"
#include "tools/common_flags.hpp"
#include "tools/message_json.hpp"
#include "tools/screen.hpp"
#include "tools/session.hpp"
#include "tools/thinking_flags.hpp"

namespace k3::cli {
namespace {

struct Flags {
  EngineFlags engine;
  SamplingFlags sampling;
  ThinkFlag think;
  BudgetFlag budget;
  std::string system, once;
  std::size_t max_tokens = 0;
};

constexpr int exit_interrupted = 130;  // 128 + SIGINT, as shells report it
constexpr std::size_t longest_line = 16U << 20;

// Lines of standard input by read(2): Ctrl-C has to end the wait, which the buffered readers would retry.
class LineReader {
 public:
  explicit LineReader(const Wakeup& wakeup) : wakeup_(wakeup) {}
  enum class End { line, eof, interrupted };
  End next(std::string& line) {
    for (;;) {
      if (const auto newline = buffer_.find('\n'); newline != std::string::npos) {
        line = buffer_.substr(0, newline);
        buffer_.erase(0, newline + 1);
        if (line.ends_with('\r')) line.pop_back();
        return End::line;
      }
      if (CatchInterrupt::seen()) return End::interrupted;
      if (!wakeup_.wait_readable(STDIN_FILENO)) continue;
      char bytes[4096];
      const ssize_t got = ::read(STDIN_FILENO, bytes, sizeof bytes);
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0 || buffer_.size() > longest_line) {
        line = std::exchange(buffer_, {});
        return line.empty() ? End::eof : End::line;
      }
      buffer_.append(bytes, static_cast<std::size_t>(got));
    }
  }

 private:
  const Wakeup& wakeup_;
  std::string buffer_;
};

class Conversation {
 public:
  Conversation(const Flags& flags, Session session, const Wakeup& wakeup)
      : flags_(flags), session_(std::move(session)), wakeup_(wakeup) {
    reset();
  }

  void reset() {
    request_ = {};
    apply_think(flags_.think, request_);
    if (!flags_.system.empty()) request_.messages.push_back(chat_message("system", flags_.system));
  }

  // One turn. After a failure or Ctrl-C the conversation is as before it.
  // `where` names the message in an error: "line 3", "--once".
  int turn(const std::string& text, const std::string& where) {
    if (const auto bad = text::utf8::find_invalid(text)) {
      return report(where + " is not valid UTF-8, from byte " + std::to_string(*bad + 1) + " on; it was not sent");
    }
    CatchInterrupt::forget();
    request_.messages.push_back(chat_message("user", text));
    const int code = answer();
    if (code != exit_ok) request_.messages.pop_back();
    CatchInterrupt::forget();
    return code;
  }

 private:
  int answer() {
    auto prompt = prompt_of(*session_.tokenizer, request_);
    if (prompt.has_error()) return report(prompt.error());
    generation::AnswerOptions options;
    options.thinking = request_.thinking;
    generation::Answer answer(*session_.tokenizer, options);
    Screen screen;
    TurnWatcher watcher;
    watcher.event = [&](const Event& event) { screen.event(event); };
    watcher.delta = [&](const text::Delta& delta) { screen.delta(delta); };
    auto form = form_of(*session_.tokenizer, request_, trie_);
    if (form.has_error()) return report(form.error());
    Job job = make_job(*session_.tokenizer, std::move(prompt).value(), sampling(flags_.sampling), flags_.max_tokens);
    job.form = std::move(form).value();
    trie_ = job.form.trie;
    job.form.thinking_budget = flags_.budget.tokens;
    auto turn = run_turn(*session_.model, std::move(job), answer, wakeup_, watcher);
    screen.end();
    if (turn.has_error()) return report(turn.error());
    if (turn->cancelled) {
      std::fputs("(stopped; this turn is forgotten)\n", stderr);
      return exit_interrupted;
    }
    if (screen.broken()) return report("cannot write the output");
    say_if_cut(answer);
    remember(answer.message());
    return exit_ok;
  }

  void remember(const text::ParsedMessage& message) {
    json::Value value = chat_message("assistant", message.content);
    if (message.has_reasoning) value.members.push_back({"reasoning_content", json_string(message.reasoning)});
    request_.messages.push_back(std::move(value));
  }

  const Flags& flags_;
  Session session_;
  const Wakeup& wakeup_;
  text::ChatRequest request_;
  std::shared_ptr<const grammar::TokenTrie> trie_;  // made with the first answer
};

int converse(Conversation& conversation, const Wakeup& wakeup, bool terminal) {
  LineReader reader(wakeup);
  std::string line;
  std::size_t number = 0;  // of the line
  int worst = exit_ok;
  bool asked_to_leave = false;  // one Ctrl-C at the prompt: the next one leaves
  if (terminal) {
    std::fputs("Ctrl-C stops an answer, Ctrl-\\ ends its thinking, Ctrl-D ends the program, /reset forgets what was said.\n",
               stderr);
  }
  for (;;) {
    if (terminal) {
      std::fputs("\033[1m> \033[0m", stderr);
      std::fflush(stderr);
    }
    const LineReader::End end = reader.next(line);
    if (end == LineReader::End::eof) break;
    if (end == LineReader::End::interrupted) {
      CatchInterrupt::forget();
      if (asked_to_leave || !terminal) return exit_interrupted;
      asked_to_leave = true;
      std::fputs("\nPress Ctrl-C again to leave.\n", stderr);
      continue;
    }
    asked_to_leave = false;
    ++number;
    if (line.find_first_not_of(" \t") == std::string::npos) continue;
    if (terminal && line == "/reset") {
      conversation.reset();
      continue;
    }
    const std::string where = terminal ? "the message" : "line " + std::to_string(number) + " of standard input";
    if (const int code = conversation.turn(line, where); code != exit_ok) worst = code;
  }
  if (terminal) std::fputs("\n", stderr);
  // At a terminal the user has seen each failure; a script has only the exit code.
  return terminal ? exit_ok : worst;
}

int chat(const Flags& flags) {
  const Wakeup wakeup;
  const bool terminal = ::isatty(STDIN_FILENO) == 1;
  if (const auto bad = text::utf8::find_invalid(flags.system)) {
    return report("--system is not valid UTF-8, from byte " + std::to_string(*bad + 1) + " on");
  }
  auto session = open_session(flags.engine);
  if (session.has_error()) return report(session.error());
  // Only from here on: loading can be left with Ctrl-C as any program.
  const CatchInterrupt interrupt(wakeup);
  Conversation conversation(flags, std::move(session).value(), wakeup);
  if (!flags.once.empty()) return conversation.turn(flags.once, "--once");
  return converse(conversation, wakeup, terminal);
}

}  // namespace

void add_chat(CLI::App& app, Chosen& chosen) {
  auto flags = std::make_shared<Flags>();
  CLI::App* command = app.add_subcommand("chat", "a conversation in the terminal");
  add_engine_flags(*command, flags->engine);
  command->add_option("--system", flags->system, "instructions that stand before the conversation");
  const CLI::Option* once =
      command->add_option("--once", flags->once, "answer this and end; the exit code tells whether it worked");
  command->add_option("--max-tokens", flags->max_tokens, "the most tokens of one answer, thinking included; default: no limit")
      ->check(whole_number(1, 1U << 20));
  add_think_flag(*command, flags->think);
  add_budget_flag(*command, flags->budget);
  add_sampling_flags(*command, flags->sampling);
  command->footer(
      "Thinking goes to stderr, answers to stdout. Standard input that is no terminal is read as one message a line.\n"
      "Ctrl-C (SIGINT) stops an answer; Ctrl-\\ (SIGQUIT) ends its thinking, and the answer follows, with --once too.\n"
      "Examples:\n"
      "  k3 chat bundled --temperature 0\n"
      "  k3 chat bundled --once 'What is the capital of France?' --temperature 0\n"
      "  printf 'My dog is called Rex.\\nWhat is my dog called?\\n' | k3 chat bundled --temperature 0");
  command->callback([flags, once, &chosen] {
    if (once->count() != 0 && flags->once.empty()) throw usage_error("--once: there is nothing to answer");
    check_budget(flags->think, flags->budget);
    chosen = [flags] { return chat(*flags); };
  });
}

}  // namespace k3::cli
