#include "model/generation/stop_matcher.hpp"

#include <algorithm>
#include <utility>

namespace k3::generation {

StopMatcher::StopMatcher(const std::vector<std::string>& stops) {
  for (const std::string& stop : stops) {
    if (stop.empty()) continue;
    Pattern pattern{stop, std::vector<std::size_t>(stop.size(), 0), 0};
    for (std::size_t i = 1, k = 0; i < stop.size(); ++i) {
      while (k > 0 && stop[i] != stop[k]) k = pattern.border[k - 1];
      if (stop[i] == stop[k]) ++k;
      pattern.border[i] = k;
    }
    patterns_.push_back(std::move(pattern));
  }
}

std::size_t StopMatcher::advance(const Pattern& pattern, char byte) {
  std::size_t k = pattern.seen;
  while (k > 0 && byte != pattern.text[k]) k = pattern.border[k - 1];
  return byte == pattern.text[k] ? k + 1 : 0;
}

std::string StopMatcher::push(std::string_view text) {
  if (matched()) return {};
  held_ += text;
  std::size_t at = held_.size() - text.size();  // what was held before has been through the automata
  for (const char byte : text) {
    ++at;
    const Pattern* completed = nullptr;
    for (Pattern& pattern : patterns_) {
      pattern.seen = advance(pattern, byte);
      if (pattern.seen != pattern.text.size()) continue;
      if (completed == nullptr || pattern.seen > completed->text.size()) completed = &pattern;
    }
    if (completed == nullptr) continue;
    match_ = completed->text;
    std::string out = held_.substr(0, at - match_.size());
    held_.clear();
    return out;
  }
  std::size_t hold = 0;
  for (const Pattern& pattern : patterns_) hold = std::max(hold, pattern.seen);
  std::string out = held_.substr(0, held_.size() - hold);
  held_.erase(0, out.size());
  return out;
}

std::string StopMatcher::flush() {
  for (Pattern& pattern : patterns_) pattern.seen = 0;
  return std::exchange(held_, {});
}

}  // namespace k3::generation
