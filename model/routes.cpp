#include "model/routes.hpp"

#include <algorithm>
#include <cassert>
#include <numeric>

namespace k3 {

void record(std::span<const layers::Choice> chosen, std::size_t token, std::size_t layer, Routes& routes) {
  assert(chosen.size() == routes.per_token);
  std::vector<layers::Choice> by_weight(chosen.begin(), chosen.end());
  std::sort(by_weight.begin(), by_weight.end(), [](const layers::Choice& a, const layers::Choice& b) {
    return a.weight != b.weight ? a.weight > b.weight : a.expert < b.expert;
  });
  std::uint32_t* to = &routes.ids[(token * routes.layers + layer) * routes.per_token];
  for (const layers::Choice& choice : by_weight) *to++ = choice.expert;
}

void impose(const Routes& routes, std::size_t token, std::size_t layer, std::size_t experts, std::vector<layers::Choice>& chosen) {
  const auto recorded = routes.at(token % routes.tokens(), layer % routes.layers);
  const std::size_t count = std::min({chosen.size(), recorded.size(), experts});
  const float sum = std::accumulate(chosen.begin(), chosen.end(), 0.0F,
                                    [](float total, const layers::Choice& choice) { return total + choice.weight; });
  std::vector<bool> taken(experts);
  chosen.resize(count);
  for (std::size_t rank = 0; rank < count; ++rank) {
    std::size_t expert = recorded[rank] % experts;
    while (taken[expert]) expert = (expert + 1) % experts;
    taken[expert] = true;
    const auto share = static_cast<float>(2 * (count - rank)) / static_cast<float>(count * (count + 1));
    chosen[rank] = {static_cast<std::uint32_t>(expert), sum * share};
  }
  std::sort(chosen.begin(), chosen.end(), [](const layers::Choice& a, const layers::Choice& b) { return a.expert < b.expert; });
}

}  // namespace k3
