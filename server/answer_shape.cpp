#include "server/answer_shape.hpp"

#include <fmt/format.h>

namespace k3::server {

std::string ping_text(const ProgressReport* waiting) {
  if (waiting == nullptr || !waiting->position) return "ping";
  std::string text = fmt::format("queued position={}", *waiting->position);
  if (waiting->turn_in_s) text += fmt::format(" turn_in={:.0f}s", *waiting->turn_in_s);
  return text;
}

}  // namespace k3::server
