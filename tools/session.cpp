#include "tools/session.hpp"

#include <unistd.h>

#include <cstdio>

namespace k3::cli {

std::function<void(std::uint64_t, std::uint64_t)> show_progress(std::string what) {
  const bool terminal = ::isatty(STDERR_FILENO) == 1;
  return [what = std::move(what), terminal, tenths = std::uint64_t{0}](std::uint64_t done, std::uint64_t total) mutable {
    // Little is done before anyone could read how far it is.
    if (total < 1'000'000'000) return;
    const double gigabytes = 1e9;
    if (terminal) {
      const char* end = done < total ? "" : "\n";
      std::fprintf(stderr, "\r\033[K%s %.1f of %.1f GB%s", what.c_str(), static_cast<double>(done) / gigabytes,
                   static_cast<double>(total) / gigabytes, end);
      std::fflush(stderr);
    } else if (done * 10 / total > tenths) {
      tenths = done * 10 / total;
      std::fprintf(stderr, "%s %.1f of %.1f GB\n", what.c_str(), static_cast<double>(done) / gigabytes,
                   static_cast<double>(total) / gigabytes);
    }
  };
}

Result<Session> open_session(const EngineFlags& flags) {
  auto options = model_options(flags);
  if (options.has_error()) return options.error();
  options->load_progress = show_progress("loading");
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

Job make_job(const text::Tokenizer& tokenizer, std::vector<text::TokenId> prompt, const generation::Sampling& sampling,
             std::size_t max_tokens) {
  Job job;
  job.prompt = std::move(prompt);
  job.sampling = sampling;
  job.max_tokens = max_tokens;
  job.stop_ids = {tokenizer.control().end_of_message, tokenizer.control().end_of_sequence};
  return job;
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
