// Any JSON as a chat request: refused by name, or rendered with no control token but the template's own.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "model/text/chat_format.hpp"

using namespace k3;

namespace {

bool is_control(std::string_view text) {
  return text == "<|open|>" || text == "<|close|>" || text == "<|sep|>" || text == "<|end_of_msg|>";
}

void check(const text::ChatRequest& request) {
  const auto segments = text::render(request);
  if (!segments) std::abort();  // what was accepted renders
  std::size_t open = 0;
  std::size_t close = 0;
  for (const text::Segment& segment : *segments) {
    if (segment.text.empty()) std::abort();
    if (!segment.allow_special) continue;
    if (!is_control(segment.text)) std::abort();
    open += segment.text == "<|open|>" ? 1 : 0;
    close += segment.text == "<|close|>" ? 1 : 0;
  }
  // Every element is closed but the generation prompt's message and channel.
  if (open != close + 2) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto body = json::parse(std::string_view(reinterpret_cast<const char*>(data), size));
  if (!body) return 0;
  const auto request = text::read_chat_request(*body);
  if (request) check(*request);
  // Rendering must survive what nobody has checked.
  text::ChatRequest unchecked;
  unchecked.messages = body->items;
  unchecked.tools = *body;
  unchecked.response_format = *body;
  static_cast<void>(text::render(unchecked));
  return 0;
}
