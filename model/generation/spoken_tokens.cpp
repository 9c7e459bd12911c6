#include "model/generation/spoken_tokens.hpp"

#include <algorithm>

#include "model/text/utf8.hpp"

namespace k3::generation {

void SpokenTokens::said(std::size_t at) {
  forget_before(at);
  if (arrived_.empty()) return;
  said_.push_back(std::move(arrived_.front()));
  said_.back().bytes = tokenizer_.bytes(said_.back().id);
  unshown_ += said_.back().bytes;
  arrived_.pop_front();
  ++first_;
}

// An invalid part of what was said has another length than the U+FFFD that is shown for it.
void SpokenTokens::shown(std::string_view text) {
  std::size_t at = 0;
  for (std::size_t i = 0; i < text.size() && at < unshown_.size();) {
    const std::size_t length = text::utf8::decode_valid(text, i).length;
    const bool replaced = text.substr(i, length) == text::utf8::kReplacement;
    at += replaced ? text::utf8::decode(unshown_, at).length : length;
    i += length;
  }
  at = std::min(at, unshown_.size());
  unshown_.erase(0, at);
  shown_ += at;
}

void SpokenTokens::forget_before(std::size_t at) {
  for (; first_ < at && !arrived_.empty(); ++first_) arrived_.pop_front();
}

std::vector<SpokenToken> SpokenTokens::take() {
  std::vector<SpokenToken> whole;
  while (!said_.empty() && said_.front().bytes.size() <= shown_) {
    shown_ -= said_.front().bytes.size();
    whole.push_back(std::move(said_.front()));
    said_.pop_front();
  }
  return whole;
}

std::vector<SpokenToken> SpokenTokens::take_last() {
  auto rest = take();
  if (!said_.empty() && shown_ > 0) {
    said_.front().bytes.resize(std::min(said_.front().bytes.size(), shown_));
    rest.push_back(std::move(said_.front()));
  }
  said_.clear();
  unshown_.clear();
  shown_ = 0;
  return rest;
}

}  // namespace k3::generation
