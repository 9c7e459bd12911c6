#include "model/generation/guide.hpp"

#include <algorithm>

#include "model/text/utf8.hpp"

namespace k3::generation {

Guide::Guide(const AnswerForm& form) : form_(form), thinking_(form.thinking.has_value()) {
  if (form.grammar && form.trie) matcher_.emplace(form.grammar, form.trie);
}

bool Guide::over() const { return enough_ || (form_.thinking_budget && thought_ >= *form_.thinking_budget); }

void Guide::think(text::TokenId id) {
  if (over()) ++late_;
  ++thought_;
  if (!form_.trie) return;
  begun_ += form_.trie->spelling(id);
  std::string whole;
  begun_.erase(0, begun_.size() - text::utf8::append_replacing(whole, begun_));
}

std::optional<text::TokenId> Guide::forced() {
  // A piece of a code point would be lost to whoever reads the thinking, and missing when it comes back with the conversation.
  // After as many tokens as one can have bytes left, the model does not mean to end it.
  constexpr std::size_t kRestOfCodePoint = 3;
  if (thinking_ && forced_.empty() && over() && (begun_.empty() || late_ >= kRestOfCodePoint))
    forced_.assign(form_.thinking->ids.begin(), form_.thinking->ids.end());
  if (forced_.empty()) return std::nullopt;
  return forced_.front();
}

std::span<const std::uint64_t> Guide::allowed(std::size_t left) {
  if (!matcher_) return {};
  const std::size_t shortest = matcher_->shortest_finish();
  // A token may open what takes more to close than itself, and how much cannot be known before: hence something to spare.
  if (shortest > 0 && left <= shortest + shortest / 4 + 16) {
    const auto towards_end = matcher_->allowed_towards_end();
    if (std::any_of(towards_end.begin(), towards_end.end(), [](std::uint64_t word) { return word != 0; })) return towards_end;
  }
  return matcher_->allowed();
}

bool Guide::accept(text::TokenId id) {
  if (!forced_.empty()) forced_.pop_front();
  if (thinking_) {
    const auto& markers = form_.thinking->markers;
    thinking_ = std::find(markers.begin(), markers.end(), id) == markers.end();
    if (thinking_) think(id);
  }
  return !matcher_ || matcher_->accept(id);
}

}  // namespace k3::generation
