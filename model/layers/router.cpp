#include "model/layers/router.hpp"

#include <algorithm>
#include <cassert>

namespace k3::layers {

namespace {

constexpr float normaliser_eps = 1e-20F;  // the reference's guard against a zero sum

// Keeps the heaviest choices until they hold `top_p` of the total.
void keep_top_share(float top_p, std::vector<Choice>& chosen) {
  std::sort(chosen.begin(), chosen.end(),
            [](const Choice& a, const Choice& b) { return a.weight != b.weight ? a.weight > b.weight : a.expert < b.expert; });
  float total = 0.0F;
  for (const Choice& choice : chosen) total += choice.weight;
  float held = 0.0F;
  std::size_t kept = 0;
  while (kept < chosen.size() && (kept == 0 || held < top_p * total)) held += chosen[kept++].weight;
  chosen.resize(kept);
}

}  // namespace

bool score_experts(const Compute& compute, const checkpoint::Matrix& router, Activations& x, std::vector<float>& scores) {
  scores.resize(x.rows() * router.rows);
  if (!compute.multiply_exact(router, x, scores.data())) return false;
  compute.kernels.sigmoid(scores.data(), scores.size(), scores.data());
  return true;
}

void choose_experts(std::span<const float> scores, std::span<const float> bias, std::size_t count, float scaling, float top_p,
                    std::vector<Choice>& chosen) {
  chosen.clear();
  for (std::uint32_t e = 0; e < scores.size(); ++e) chosen.push_back({e, scores[e] + bias[e]});
  // A strict order even with NaN among the scores (which would otherwise break the sort): NaN last.
  const auto better = [](const Choice& a, const Choice& b) {
    const bool a_nan = a.weight != a.weight, b_nan = b.weight != b.weight;
    if (a_nan != b_nan) return b_nan;
    if (!a_nan && a.weight != b.weight) return a.weight > b.weight;
    return a.expert < b.expert;
  };
  std::partial_sort(chosen.begin(), chosen.begin() + static_cast<std::ptrdiff_t>(count), chosen.end(), better);
  chosen.resize(count);
  const auto by_id = [](const Choice& a, const Choice& b) { return a.expert < b.expert; };
  std::sort(chosen.begin(), chosen.end(), by_id);
  for (Choice& choice : chosen) choice.weight = scores[choice.expert];
  if (top_p < 1.0F) {
    keep_top_share(top_p, chosen);
    std::sort(chosen.begin(), chosen.end(), by_id);
  }
  float sum = normaliser_eps;
  for (const Choice& choice : chosen) sum += choice.weight;
  for (Choice& choice : chosen) choice.weight = choice.weight / sum * scaling;
}

// In a public recording of the released model (`k3 bench cache` prints it of any) two in three of the experts with the largest
// weight of their row are chosen by the next token too, of those with the smallest one in five; in between the share falls about
// evenly.
void add_worth(std::span<const Choice> chosen, float share, std::span<float> worth) {
  constexpr float least = 0.25F;
  for (const Choice& choice : chosen) {
    assert(choice.expert < worth.size());
    const auto heavier = [&choice](const Choice& other) { return other.weight > choice.weight; };
    const auto rank = static_cast<float>(std::count_if(chosen.begin(), chosen.end(), heavier));
    worth[choice.expert] += share * (1.0F - (1.0F - least) * rank / static_cast<float>(chosen.size()));
  }
}

}  // namespace k3::layers
