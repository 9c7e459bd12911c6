#include "model/text/tokenizer.hpp"
#include "model/text/utf8.hpp"

namespace k3::text {

std::string Utf8Stream::push(std::string_view bytes) {
  pending_ += bytes;
  std::string out;
  const std::size_t held_back = utf8::append_replacing(out, pending_);
  pending_.erase(0, pending_.size() - held_back);
  return out;
}

std::string Utf8Stream::finish() {
  // What is held back is always one beginning of a code point, hence one replacement.
  const bool held_back = !pending_.empty();
  pending_.clear();
  return held_back ? std::string(utf8::kReplacement) : std::string();
}

}  // namespace k3::text
