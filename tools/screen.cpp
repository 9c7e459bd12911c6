#include "tools/screen.hpp"

#include <unistd.h>

#include <cstdio>

namespace k3::cli {

Screen::Screen() : colour_(::isatty(STDERR_FILENO) == 1) {}

void Screen::event(const Event& event) {
  if (!colour_) return;
  if (const auto* prefill = std::get_if<Prefill>(&event); prefill != nullptr && prefill->done < prefill->total) {
    std::fprintf(stderr, "\r\033[K\033[2mreading the prompt: %zu of %zu tokens\033[0m", prefill->done, prefill->total);
    std::fflush(stderr);
    status_ = true;
  }
}

void Screen::delta(const text::Delta& delta) {
  clear_status();
  if (const auto* reasoning = std::get_if<text::ReasoningDelta>(&delta)) {
    thinking(reasoning->text);
  } else if (const auto* content = std::get_if<text::ContentDelta>(&delta)) {
    leave_thinking();
    out(content->text);
  } else if (const auto* begin = std::get_if<text::ToolCallBegin>(&delta)) {
    leave_thinking();
    if (line_open_) out("\n");
    out("[calls " + begin->name + "] ");
  } else if (const auto* arguments = std::get_if<text::ToolCallArguments>(&delta)) {
    out(arguments->json);
  } else if (std::holds_alternative<text::ToolCallEnd>(delta)) {
    out("\n");
  }
}

void Screen::end() {
  clear_status();
  leave_thinking();
  if (line_open_) out("\n");
}

void Screen::out(const std::string& text) {
  if (text.empty()) return;
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0) broken_ = true;
  line_open_ = text.back() != '\n';
}

void Screen::thinking(const std::string& text) {
  if (text.empty()) return;
  if (!in_thinking_ && colour_) std::fputs("\033[2m", stderr);
  in_thinking_ = true;
  std::fwrite(text.data(), 1, text.size(), stderr);
  std::fflush(stderr);
}

void Screen::leave_thinking() {
  if (!in_thinking_) return;
  in_thinking_ = false;
  std::fputs(colour_ ? "\033[0m\n\n" : "\n", stderr);
  std::fflush(stderr);
}

void Screen::clear_status() {
  if (!status_) return;
  std::fputs("\r\033[K", stderr);
  std::fflush(stderr);
  status_ = false;
}

}  // namespace k3::cli
