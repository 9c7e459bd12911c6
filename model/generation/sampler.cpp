#include "model/generation/sampler.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <limits>

namespace k3::generation {

namespace {

Error bad(const std::string& name, double got, const std::string& expected) {
  Error error = fail(ErrorCode::invalid_argument, name + " is out of range");
  error.expected = expected;
  error.got = std::to_string(got);
  return error;
}

// The finaliser of SplitMix64: a bijection that scatters neighbouring inputs.
std::uint64_t scatter(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

// Top-p sorts only this many candidates at first; most distributions put their mass on fewer.
constexpr std::size_t first_sorted = 64;

}  // namespace

Result<void> validate(const Sampling& s, std::size_t vocabulary) {
  // Written so that NaN fails each.
  if (!(s.temperature >= 0 && std::isfinite(s.temperature))) return bad("temperature", s.temperature, "0 or more");
  if (!(s.top_p > 0 && s.top_p <= 1)) return bad("top_p", s.top_p, "more than 0, at most 1");
  if (s.top_k < 0) return bad("top_k", s.top_k, "0 or more");
  if (!(s.min_p >= 0 && s.min_p < 1)) return bad("min_p", s.min_p, "0 or more, less than 1");
  if (!(s.repetition_penalty > 0 && std::isfinite(s.repetition_penalty))) {
    return bad("repetition_penalty", s.repetition_penalty, "more than 0");
  }
  if (!std::isfinite(s.presence_penalty)) return bad("presence_penalty", s.presence_penalty, "a finite number");
  if (!std::isfinite(s.frequency_penalty)) return bad("frequency_penalty", s.frequency_penalty, "a finite number");
  for (const auto& [id, bias] : s.logit_bias) {
    if (id < 0 || static_cast<std::size_t>(id) >= vocabulary) {
      return bad("logit_bias token id", id, "0 to " + std::to_string(vocabulary - 1));
    }
    if (!std::isfinite(bias)) return bad("logit_bias of token " + std::to_string(id), bias, "a finite number");
  }
  return {};
}

double uniform(std::uint64_t seed, std::uint64_t step) {
  // The seed is scattered before the step is added: with neighbouring seeds the streams would otherwise be shifts of one another.
  const std::uint64_t bits = scatter(scatter(seed + 0x9e3779b97f4a7c15ULL) + (step + 1) * 0x9e3779b97f4a7c15ULL);
  return static_cast<double>(bits >> 11) * 0x1p-53;
}

Sampler::Sampler(const Sampling& sampling, std::span<const std::int32_t> prompt, std::size_t vocabulary,
                 const kernels::Table& kernels)
    : sampling_(sampling),
      kernels_(kernels),
      repeats_(sampling.repetition_penalty != 1.0F),
      counts_(sampling.presence_penalty != 0 || sampling.frequency_penalty != 0) {
  if (repeats_) {
    seen_.resize(vocabulary);
    for (const std::int32_t id : prompt) seen_[static_cast<std::size_t>(id)] = 1;
  }
  if (counts_) output_.resize(vocabulary);
  if (adjusts()) adjusted_.resize(vocabulary);
  if (sampling.temperature > 0) candidates_.resize(vocabulary);
}

void Sampler::accept(std::int32_t id) {
  ++step_;
  if (repeats_) seen_[static_cast<std::size_t>(id)] = 1;
  if (counts_) ++output_[static_cast<std::size_t>(id)];
}

std::span<const float> Sampler::adjust(std::span<const float> logits, std::span<const std::uint64_t> allowed) {
  adjusted_.resize(logits.size());
  std::copy(logits.begin(), logits.end(), adjusted_.begin());
  if (repeats_) {
    for (std::size_t i = 0; i < adjusted_.size(); ++i) {
      if (seen_[i] == 0) continue;
      // As in CTRL, with the sign minded: a penalty always makes the token less likely.
      adjusted_[i] = adjusted_[i] > 0 ? adjusted_[i] / sampling_.repetition_penalty : adjusted_[i] * sampling_.repetition_penalty;
    }
  }
  if (counts_) {
    for (std::size_t i = 0; i < adjusted_.size(); ++i) {
      if (output_[i] == 0) continue;
      adjusted_[i] -= sampling_.presence_penalty + static_cast<float>(output_[i]) * sampling_.frequency_penalty;
    }
  }
  for (const auto& [id, bias] : sampling_.logit_bias) adjusted_[static_cast<std::size_t>(id)] += bias;
  for (std::size_t i = 0; !allowed.empty() && i < adjusted_.size(); ++i) {
    // A NaN stays one, to be noticed.
    if ((allowed[i / 64] >> (i % 64) & 1) == 0 && adjusted_[i] == adjusted_[i])
      adjusted_[i] = -std::numeric_limits<float>::infinity();
  }
  return adjusted_;
}

Result<std::int32_t> Sampler::greedy(std::span<const float> logits) const {
  std::size_t best = 0;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    // NaN compares false with everything and would otherwise pass unseen; +infinity has no successor to be normalised against.
    if (!(logits[i] < std::numeric_limits<float>::infinity())) {
      return fail(ErrorCode::internal, "the model gave token " + std::to_string(i) + " the logit " + std::to_string(logits[i]));
    }
    if (logits[i] > logits[best]) best = i;
  }
  if (logits[best] == -std::numeric_limits<float>::infinity())
    return fail(ErrorCode::internal, "the model gave no token that may come next a finite logit");
  return static_cast<std::int32_t>(best);
}

double Sampler::weight(float logit) const { return static_cast<double>(kernels_.exp((logit - best_) / sampling_.temperature)); }

std::size_t Sampler::keep_top_k() {
  const auto k = static_cast<std::size_t>(sampling_.top_k);
  if (k == 0 || k >= candidates_.size()) return candidates_.size();
  const auto end = candidates_.begin() + static_cast<std::ptrdiff_t>(k);
  std::nth_element(candidates_.begin(), end - 1, candidates_.end(), better);
  std::sort(candidates_.begin(), end, better);  // which of the k stands where is the library's choice until sorted
  sorted_ = k;
  return k;
}

// The shortest prefix of the order that holds top_p of the weight.
std::size_t Sampler::keep_top_p(std::size_t count) {
  if (sampling_.top_p >= 1) return count;
  double total = 0;
  for (std::size_t i = 0; i < count; ++i) total += weight(candidates_[i].logit);
  const double wanted = static_cast<double>(sampling_.top_p) * total;
  double sum = 0;
  const auto at = [this](std::size_t i) { return candidates_.begin() + static_cast<std::ptrdiff_t>(i); };
  for (std::size_t i = 0; i < count; ++i) {
    if (i == sorted_) {
      const std::size_t next = std::min(count, std::max(first_sorted, sorted_ * 4));
      if (next < count) std::nth_element(at(i), at(next - 1), at(count), better);
      std::sort(at(i), at(next), better);
      sorted_ = next;
    }
    sum += weight(candidates_[i].logit);
    if (sum >= wanted) return i + 1;
  }
  return count;
}

// min_p of the best weight, which is exp(0) = 1, is the least a candidate needs; then one walk to the total and one to the draw.
std::int32_t Sampler::draw(std::size_t count) const {
  const auto admitted = [this](double w) { return w > 0 && w >= static_cast<double>(sampling_.min_p); };
  double total = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const double w = weight(candidates_[i].logit);
    if (admitted(w)) total += w;
  }
  const double target = uniform(sampling_.seed, step_) * total;
  double sum = 0;
  std::int32_t last = -1;
  for (std::size_t i = 0; i < count; ++i) {
    const double w = weight(candidates_[i].logit);
    if (!admitted(w)) continue;
    sum += w;
    last = candidates_[i].id;
    if (sum > target) return last;
  }
  return last;  // the product above may round up to the total itself
}

Result<std::int32_t> Sampler::sample(std::span<const float> logits, std::span<const std::uint64_t> allowed) {
  if (adjusts() || !allowed.empty()) logits = adjust(logits, allowed);
  const auto best = greedy(logits);
  if (best.has_error() || sampling_.temperature == 0) return best;
  assert(logits.size() == candidates_.size());
  best_ = logits[static_cast<std::size_t>(*best)];
  for (std::size_t i = 0; i < logits.size(); ++i) candidates_[i] = {logits[i], static_cast<std::int32_t>(i)};
  sorted_ = 0;
  return draw(keep_top_p(keep_top_k()));
}

}  // namespace k3::generation
