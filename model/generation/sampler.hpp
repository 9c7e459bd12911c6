// Logits become a token. The same request gives the same ids on every machine: the random numbers are our own, counted by output
// position, exp comes from the kernel table (no libm), sums run in one fixed order.
#pragma once

#include <span>
#include <vector>

#include "kernels/kernels.hpp"
#include "model/error.hpp"
#include "model/generation/sampling.hpp"

namespace k3::generation {

// What the sampler relies on; a request that fails this must not reach it.
Result<void> validate(const Sampling& sampling, std::size_t vocabulary);

// Uniform in [0, 1) with 53 bits: a function of the seed and the step alone, so a continued conversation draws as a fresh one does.
double uniform(std::uint64_t seed, std::uint64_t step);

class Sampler {
 public:
  // `prompt` counts for the repetition penalty only. Allocates all it will need.
  Sampler(const Sampling& sampling, std::span<const std::int32_t> prompt, std::size_t vocabulary, const kernels::Table& kernels);

  // Order: repetition, presence and frequency penalties, logit bias, temperature, top-k, top-p (of what top-k left), min-p, draw.
  // `allowed`: one bit an id, [vocabulary], of those that may be drawn; empty: all. What is not allowed counts for nothing: top-k
  // and top-p cut what is left. Error: a logit is NaN or +infinity, or all that may be drawn are -infinity.
  Result<std::int32_t> sample(std::span<const float> logits, std::span<const std::uint64_t> allowed = {});
  // The token that was taken: moves the step on and counts for the penalties.
  void accept(std::int32_t id);

 private:
  struct Candidate {
    float logit;
    std::int32_t id;
  };
  // Total order, best first: equal logits by id, so that no sorting algorithm's habits can show.
  static bool better(const Candidate& a, const Candidate& b) { return a.logit != b.logit ? a.logit > b.logit : a.id < b.id; }

  bool adjusts() const { return repeats_ || counts_ || !sampling_.logit_bias.empty(); }
  std::span<const float> adjust(std::span<const float> logits, std::span<const std::uint64_t> allowed);
  Result<std::int32_t> greedy(std::span<const float> logits) const;
  std::size_t keep_top_k();
  std::size_t keep_top_p(std::size_t count);
  double weight(float logit) const;
  std::int32_t draw(std::size_t count) const;

  const Sampling sampling_;
  const kernels::Table& kernels_;
  const bool repeats_, counts_;
  std::uint64_t step_ = 0;
  float best_ = 0;                     // highest logit of the step
  std::vector<std::uint8_t> seen_;     // [vocabulary], in prompt or output; for the repetition penalty
  std::vector<std::uint32_t> output_;  // [vocabulary], occurrences in the output; for presence and frequency
  std::vector<float> adjusted_;        // [vocabulary]
  std::vector<Candidate> candidates_;  // [vocabulary]
  std::size_t sorted_ = 0;             // candidates in front that are in final order
};

}  // namespace k3::generation
