// What a request may ask of the sampler, with defaults that mean "as the model is": temperature 1, nothing cut.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

namespace k3::generation {

struct Sampling {
  float temperature = 1.0F;  // 0: greedy (ties: lowest id)
  float top_p = 1.0F;        // (0, 1]
  int top_k = 0;             // 0: off
  float min_p = 0.0F;        // [0, 1): keep p >= min_p * p_max
  std::uint64_t seed = 0;
  float repetition_penalty = 1.0F;  // > 0; over prompt and output, as in CTRL
  float presence_penalty = 0.0F;    // over the output, as OpenAI documents
  float frequency_penalty = 0.0F;
  std::vector<std::pair<std::int32_t, float>> logit_bias;
};

}  // namespace k3::generation
