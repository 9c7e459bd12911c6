// What the model thought of a token and its rivals, from the logits as they came: before penalties, biases and temperature, as
// OpenAI documents it. Costs a walk over the vocabulary, so only who asks for it pays.
#pragma once

#include <memory>
#include <span>

#include "kernels/kernels.hpp"
#include "model/ticket.hpp"

namespace k3::generation {

// `id` and `count` most probable ones. The logits are finite or -infinity and at least one is finite: the sampler has seen to that.
std::shared_ptr<const TokenLogprobs> token_logprobs(std::span<const float> logits, std::int32_t id, unsigned count,
                                                    const kernels::Table& kernels);

}  // namespace k3::generation
