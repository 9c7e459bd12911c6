// Which experts a row goes to, and with what weight.
#pragma once

#include <vector>

#include "model/layers/compute.hpp"

namespace k3::layers {

struct Choice {
  std::uint32_t expert = 0;
  float weight = 0.0F;
};

// scores [rows, experts]: sigmoid of the router's logits, in float32 whatever the mode. False: told to stop.
bool score_experts(const Compute& compute, const checkpoint::Matrix& router, Activations& x, std::vector<float>& scores);

// The chosen experts of one row, by ascending expert id (the order of every later sum). `scores` [experts]: see score_experts().
// The bias takes part in choosing only; weights come from the unbiased scores, normalised and scaled. Ties go to the lower id.
// `top_p` < 1 keeps the fewest experts whose weights reach that share, renormalised among themselves; 1 keeps all.
void choose_experts(std::span<const float> scores, std::span<const float> bias, std::size_t count, float scaling, float top_p,
                    std::vector<Choice>& chosen);

// Adds to worth[expert] what a row's choice says of the next row's: an expert is the likelier to be chosen again the larger its
// weight is among those of its row. `share`: how much this row counts, 1 for the last one.
void add_worth(std::span<const Choice> chosen, float share, std::span<float> worth);

}  // namespace k3::layers
