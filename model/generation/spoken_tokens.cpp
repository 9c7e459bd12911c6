#include "model/generation/spoken_tokens.hpp"

#include <algorithm>

namespace k3::generation {

void SpokenTokens::said(std::size_t at) {
  forget_before(at);
  if (arrived_.empty()) return;
  said_.push_back(std::move(arrived_.front()));
  said_.back().bytes = tokenizer_.bytes(said_.back().id);
  arrived_.pop_front();
  ++first_;
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
  // Where invalid bytes were shown as U+FFFD, more came out than was said.
  if (said_.empty()) shown_ = 0;
  return whole;
}

std::vector<SpokenToken> SpokenTokens::take_last() {
  auto rest = take();
  if (!said_.empty() && shown_ > 0) {
    said_.front().bytes.resize(std::min(said_.front().bytes.size(), shown_));
    rest.push_back(std::move(said_.front()));
  }
  said_.clear();
  shown_ = 0;
  return rest;
}

}  // namespace k3::generation
