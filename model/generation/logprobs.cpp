#include "model/generation/logprobs.hpp"

#include <algorithm>
#include <cmath>

namespace k3::generation {
namespace {

using Entry = std::pair<std::int32_t, float>;

// Total, so that equal logits cannot change places from one machine to another.
bool better(const Entry& a, const Entry& b) { return a.second != b.second ? a.second > b.second : a.first < b.first; }

// The best `count`, kept in order while walking: the list is short and few tokens get into it.
std::vector<Entry> best(std::span<const float> logits, std::size_t count) {
  std::vector<Entry> top;
  if (count == 0) return top;
  top.reserve(count + 1);
  for (std::size_t i = 0; i < logits.size(); ++i) {
    const Entry entry{static_cast<std::int32_t>(i), logits[i]};
    if (top.size() == count && !better(entry, top.back())) continue;
    top.insert(std::upper_bound(top.begin(), top.end(), entry, better), entry);
    if (top.size() > count) top.pop_back();
  }
  return top;
}

}  // namespace

std::shared_ptr<const TokenLogprobs> token_logprobs(std::span<const float> logits, std::int32_t id, unsigned count,
                                                    const kernels::Table& kernels) {
  const float highest = *std::max_element(logits.begin(), logits.end());
  // Shifted by the highest, so that no power overflows and the sum is at least 1; summed in double, in one order.
  double sum = 0;
  for (const float logit : logits) sum += static_cast<double>(kernels.exp(logit - highest));
  const double log_sum = std::log(sum);
  // In this order: added to a huge logit, the logarithm would be lost.
  const auto logprob = [=](float logit) {
    return static_cast<float>(static_cast<double>(logit) - static_cast<double>(highest) - log_sum);
  };
  auto result = std::make_shared<TokenLogprobs>();
  result->own = logprob(logits[static_cast<std::size_t>(id)]);
  result->top = best(logits, std::min<std::size_t>(count, logits.size()));
  for (auto& [token, value] : result->top) value = logprob(value);
  return result;
}

}  // namespace k3::generation
