#include "tools/session.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <optional>

#include "model/generation/answer_grammar.hpp"

namespace k3::cli {

namespace {

// Whoever waits longer than this wants to know for how long.
constexpr std::chrono::seconds patience(2);

// "3.2 of 112.9 GB, 2 min left", at the speed so far.
std::string progress_text(std::uint64_t done, std::uint64_t total, double seconds) {
  std::string text = fmt::format("{:.1f} of {:.1f} GB", static_cast<double>(done) / 1e9, static_cast<double>(total) / 1e9);
  if (done == 0 || done >= total) return text;
  const double left = seconds * static_cast<double>(total - done) / static_cast<double>(done);
  return text + (left < 100 ? fmt::format(", {:.0f} s left", left) : fmt::format(", {:.0f} min left", left / 60));
}

}  // namespace

std::function<void(std::uint64_t, std::uint64_t)> show_progress(std::string what) {
  using Clock = std::chrono::steady_clock;
  const bool terminal = ::isatty(STDERR_FILENO) == 1;
  // The clock starts with the first call, not when the run is prepared.
  return [what = std::move(what), terminal, tenths = std::uint64_t{0}, told = false, begin = std::optional<Clock::time_point>()](
             std::uint64_t done, std::uint64_t total) mutable {
    const auto now = Clock::now();
    if (!begin) begin = now;
    if (total == 0 || (now - *begin < patience && !told)) return;
    const std::string text = progress_text(done, total, std::chrono::duration<double>(now - *begin).count());
    if (terminal) {
      std::fprintf(stderr, "\r\033[K%s %s%s", what.c_str(), text.c_str(), done < total ? "" : "\n");
      std::fflush(stderr);
    } else if (done * 10 / total > tenths || !told) {
      tenths = done * 10 / total;
      std::fprintf(stderr, "%s %s\n", what.c_str(), text.c_str());
    }
    told = true;
  };
}

void show_load_progress(ModelOptions& options) {
  options.load_progress = show_progress("loading");
  options.cache_progress = show_progress("rounding and keeping");
}

Result<Session> open_session(const EngineFlags& flags) {
  auto options = model_options(flags);
  if (options.has_error()) return options.error();
  show_load_progress(*options);
  auto tokenizer = text::Tokenizer::load(options->directory);
  if (tokenizer.has_error()) return tokenizer.error();
  auto model = Actor::start(*options);
  if (model.has_error()) return model.error();
  Session session;
  session.tokenizer = std::make_unique<text::Tokenizer>(std::move(tokenizer).value());
  session.model = std::move(model).value();
  return session;
}

void apply_think(const ThinkFlag& flag, text::ChatRequest& request) {
  if (flag.value.empty()) return;
  request.thinking = flag.value != "off";
  if (flag.value == "low") request.effort = text::Effort::low;
  if (flag.value == "high") request.effort = text::Effort::high;
  if (flag.value == "max") request.effort = text::Effort::max;
}

Result<std::vector<text::TokenId>> prompt_of(const text::Tokenizer& tokenizer, const text::ChatRequest& request) {
  auto segments = text::render(request);
  if (segments.has_error()) return segments.error();
  return tokenizer.encode(*segments);
}

Result<generation::AnswerForm> form_of(const text::Tokenizer& tokenizer, const text::ChatRequest& request,
                                       std::shared_ptr<const grammar::TokenTrie> trie) {
  generation::AnswerForm form;
  if (request.thinking) form.thinking = generation::thinking_end(tokenizer);
  auto grammar = generation::answer_grammar(request, tokenizer.control());
  if (!grammar) return fail(ErrorCode::invalid_argument, grammar.error().param + ": " + grammar.error().message);
  form.grammar = std::move(*grammar);
  // Made of the whole vocabulary, so not where nobody looks at it.
  if (form.grammar || form.thinking) form.trie = trie ? std::move(trie) : grammar::TokenTrie::of(tokenizer);
  return form;
}

Job make_job(const text::Tokenizer& tokenizer, std::vector<text::TokenId> prompt, const generation::Sampling& sampling,
             std::size_t max_tokens) {
  Job job;
  job.prompt = std::move(prompt);
  job.sampling = sampling;
  job.max_tokens = max_tokens;
  job.stop_ids = {tokenizer.control().end_of_message, tokenizer.control().end_of_sequence};
  return job;
}

void say_if_cut(const generation::Answer& answer) {
  if (answer.finish_reason() != "length") return;
  if (answer.cut_in() == generation::CutIn::thinking) {
    std::fputs(
        "(cut off while thinking, before the answer began: give it more --max-tokens, bound the thinking with --reasoning-budget, "
        "or "
        "let it think less with --think low)\n",
        stderr);
  } else {
    std::fputs("(cut off: the limit of tokens is reached)\n", stderr);
  }
}

std::size_t calls_in(const text::ChatRequest& request) {
  std::size_t calls = 0;
  for (const json::Value& message : request.messages) {
    const json::Value* list = message.find("tool_calls");
    if (list != nullptr && list->is_array()) calls += list->items.size();
  }
  return calls;
}

}  // namespace k3::cli
