#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>

#include "model/generation/sampler.hpp"
#include "tests/catch.hpp"

using namespace k3;
using generation::Sampler;
using generation::Sampling;

namespace {

using Ids = std::vector<std::int32_t>;

const kernels::Table& table() { return *kernels::select("auto"); }

std::int32_t once(const Sampling& sampling, const std::vector<float>& logits, const Ids& prompt = {}, const Ids& output = {}) {
  Sampler sampler(sampling, prompt, logits.size(), table());
  for (const auto id : output) sampler.accept(id);
  return sampler.sample(logits).value();
}

// How often each id is drawn in `n` steps of one sampler.
std::map<std::int32_t, int> histogram(const Sampling& sampling, const std::vector<float>& logits, int n) {
  Sampler sampler(sampling, {}, logits.size(), table());
  std::map<std::int32_t, int> counts;
  for (int i = 0; i < n; ++i) {
    const auto id = sampler.sample(logits).value();
    ++counts[id];
    sampler.accept(id);
  }
  return counts;
}

std::set<std::int32_t> support(const Sampling& sampling, const std::vector<float>& logits) {
  std::set<std::int32_t> ids;
  for (const auto& [id, count] : histogram(sampling, logits, 4000)) ids.insert(id);
  return ids;
}

std::vector<float> scrambled(std::size_t n) {
  std::vector<float> logits(n);
  for (std::size_t i = 0; i < n; ++i) logits[i] = static_cast<float>(generation::uniform(3, i) * 12 - 6);
  return logits;
}

}  // namespace

TEST_CASE("greedy takes the highest logit, the lowest id among equals") {
  Sampling greedy;
  greedy.temperature = 0;
  CHECK(once(greedy, {1, 5, 3}) == 1);
  CHECK(once(greedy, {2, 7, 7, 7}) == 1);
  CHECK(once(greedy, {-3, -3}) == 0);
}

TEST_CASE("draws follow the softmax of the logits over the temperature") {
  const std::vector<float> logits = {0, 1, 2, -1};
  for (const float temperature : {0.5F, 1.0F, 2.0F}) {
    Sampling sampling;
    sampling.temperature = temperature;
    sampling.seed = 11;
    const int n = 40000;
    auto counts = histogram(sampling, logits, n);
    double total = 0;
    for (const float l : logits) total += std::exp(static_cast<double>(l / temperature));
    for (std::size_t i = 0; i < logits.size(); ++i) {
      const double p = std::exp(static_cast<double>(logits[i] / temperature)) / total;
      // Five standard deviations of a binomial; the seed is fixed, so this cannot flicker.
      CHECK(std::abs(counts[static_cast<std::int32_t>(i)] - n * p) < 5 * std::sqrt(n * p * (1 - p)));
    }
  }
}

TEST_CASE("a seed gives the same ids again, another seed others, and only the step counts") {
  const auto logits = scrambled(1000);
  const auto draw = [&](std::uint64_t seed) {
    Sampling sampling;
    sampling.seed = seed;
    Sampler sampler(sampling, {}, logits.size(), table());
    Ids ids;
    for (int i = 0; i < 50; ++i) {
      ids.push_back(sampler.sample(logits).value());
      CHECK(sampler.sample(logits).value() == ids.back());  // sampling twice without accepting is the same draw
      sampler.accept(ids.back());
    }
    return ids;
  };
  CHECK(draw(5) == draw(5));
  CHECK(draw(5) != draw(6));
}

TEST_CASE("the random numbers are pinned: stored conversations continue as they began") {
  // Worked out with another implementation of SplitMix64's finaliser.
  CHECK(generation::uniform(0, 0) == 0x1.4e0dba5e9a32fp-1);
  CHECK(generation::uniform(0, 1) == 0x1.6705460be8829p-1);
  CHECK(generation::uniform(12345, 7) == 0x1.8e92b582e08dep-1);
  double sum = 0;
  for (std::uint64_t i = 0; i < 10000; ++i) {
    const double u = generation::uniform(42, i);
    REQUIRE(u >= 0);
    REQUIRE(u < 1);
    sum += u;
  }
  CHECK(std::abs(sum / 10000 - 0.5) < 0.015);  // five standard deviations: 5 / sqrt(12 * 10^4)
}

TEST_CASE("every tier draws the same ids") {
  const auto logits = scrambled(5000);
  std::vector<Ids> runs;
  for (const kernels::Table* tier : kernels::tables()) {
    if (!kernels::supported(*tier)) continue;
    Sampling sampling;
    sampling.seed = 9;
    sampling.top_p = 0.9F;
    Sampler sampler(sampling, {}, logits.size(), *tier);
    Ids ids;
    for (int i = 0; i < 40; ++i) {
      ids.push_back(sampler.sample(logits).value());
      sampler.accept(ids.back());
    }
    runs.push_back(ids);
  }
  for (const auto& run : runs) CHECK(run == runs.front());
}

TEST_CASE("top-k keeps the k best, ties by id") {
  Sampling sampling;
  sampling.temperature = 5;
  sampling.top_k = 2;
  CHECK(support(sampling, {1, 3, 2, 3, 0}) == std::set<std::int32_t>{1, 3});
  CHECK(support(sampling, {2, 2, 2, 2}) == std::set<std::int32_t>{0, 1});
  sampling.top_k = 100;
  CHECK(support(sampling, {1, 1, 1}).size() == 3);
}

TEST_CASE("top-p keeps the fewest that hold the share, however many that are") {
  const auto logits = scrambled(3000);
  std::vector<std::pair<double, std::int32_t>> order;
  double total = 0;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    order.emplace_back(-std::exp(static_cast<double>(logits[i])), static_cast<std::int32_t>(i));
    total += -order.back().first;
  }
  std::sort(order.begin(), order.end());
  for (const float top_p : {0.001F, 0.05F, 0.3F, 0.9F, 0.999F}) {
    std::set<std::int32_t> nucleus;
    double sum = 0;
    for (const auto& [weight, id] : order) {
      nucleus.insert(id);
      sum -= weight;
      if (sum >= static_cast<double>(top_p) * total) break;
    }
    Sampling sampling;
    sampling.top_p = top_p;
    const auto drawn = support(sampling, logits);
    INFO(top_p << " nucleus of " << nucleus.size());
    CHECK(std::includes(nucleus.begin(), nucleus.end(), drawn.begin(), drawn.end()));
    if (nucleus.size() < 100) CHECK(drawn == nucleus);  // the smaller ones are hit completely
  }
}

TEST_CASE("top-p counts within what top-k left, and min-p cuts relative to the best") {
  Sampling sampling;
  sampling.top_k = 2;
  sampling.top_p = 0.6F;  // of {e^1, e^0.9} the best holds 0.52: both stay
  CHECK(support(sampling, {1, 0.9F, 0.8F, 0.7F}) == std::set<std::int32_t>{0, 1});
  sampling.top_p = 0.5F;
  CHECK(support(sampling, {1, 0.9F, 0.8F, 0.7F}) == std::set<std::int32_t>{0});
  Sampling min;
  min.min_p = 0.4F;  // e^-0.9 = 0.407 stays, e^-1 = 0.368 goes
  CHECK(support(min, {2, 1.1F, 1.0F, -3}) == std::set<std::int32_t>{0, 1});
}

TEST_CASE("penalties and bias") {
  Sampling s;
  s.temperature = 0;
  s.repetition_penalty = 2;
  CHECK(once(s, {4, 3, 1}, {0}) == 1);        // 4 / 2 < 3
  CHECK(once(s, {-1, -1.5F, -9}, {0}) == 1);  // -1 * 2 < -1.5: a penalty of a negative logit lowers it too
  CHECK(once(s, {4, 3, 1}, {}, {0}) == 1);    // the output counts as the prompt does
  CHECK(once(s, {4, 3, 1}, {0, 0, 0}) == 1);  // once, however often
  s = {};
  s.temperature = 0;
  s.presence_penalty = 1;
  CHECK(once(s, {4, 3.5F}, {0}) == 0);  // the prompt does not count
  CHECK(once(s, {4, 3.5F}, {}, {0}) == 1);
  CHECK(once(s, {4, 2.5F}, {}, {0, 0, 0}) == 0);  // once, however often
  s.presence_penalty = 0;
  s.frequency_penalty = 0.5F;
  CHECK(once(s, {4, 3.2F}, {}, {0}) == 0);
  CHECK(once(s, {4, 3.2F}, {}, {0, 0}) == 1);  // each time
  s = {};
  s.temperature = 0;
  s.logit_bias = {{0, -100.0F}, {2, 0.5F}};
  CHECK(once(s, {4, 3, 2.6F}) == 2);
  s.temperature = 1;
  s.logit_bias = {{0, -100.0F}};
  CHECK(support(s, {2, 1, 1}) == std::set<std::int32_t>{1, 2});
}

TEST_CASE("logits that are no numbers are an error, not a token") {
  const float nan = std::numeric_limits<float>::quiet_NaN(), inf = std::numeric_limits<float>::infinity();
  for (const float temperature : {0.0F, 1.0F}) {
    Sampling s;
    s.temperature = temperature;
    for (const std::vector<float>& logits : {std::vector<float>{1, nan, 2}, {nan}, {nan, 1}, {1, inf}, {-inf, -inf}}) {
      Sampler sampler(s, {}, logits.size(), table());
      const auto id = sampler.sample(logits);
      REQUIRE(id.has_error());
      CHECK(id.error().code == ErrorCode::internal);
    }
    CHECK(once(s, {-inf, 3, -inf}) == 1);
  }
}

TEST_CASE("extreme temperatures stay sound") {
  Sampling s;
  s.temperature = 1e-30F;
  CHECK(support(s, {1, 2, 1.9999F}) == std::set<std::int32_t>{1});
  s.temperature = 1e30F;
  CHECK(support(s, {-50, 50, 0}).size() == 3);
}

TEST_CASE("out-of-range requests are named") {
  const auto message = [](auto change) {
    Sampling s;
    change(s);
    const auto result = generation::validate(s, 100);
    return result.has_error() ? result.error().message : std::string();
  };
  const float nan = std::numeric_limits<float>::quiet_NaN();
  CHECK(message([](Sampling&) {}).empty());
  CHECK(message([](Sampling& s) { s.temperature = -1; }).starts_with("temperature"));
  CHECK(message([&](Sampling& s) { s.temperature = nan; }).starts_with("temperature"));
  CHECK(message([](Sampling& s) { s.top_p = 0; }).starts_with("top_p"));
  CHECK(message([](Sampling& s) { s.top_k = -1; }).starts_with("top_k"));
  CHECK(message([](Sampling& s) { s.min_p = 1; }).starts_with("min_p"));
  CHECK(message([](Sampling& s) { s.repetition_penalty = 0; }).starts_with("repetition_penalty"));
  CHECK(message([&](Sampling& s) { s.presence_penalty = nan; }).starts_with("presence_penalty"));
  CHECK(message([&](Sampling& s) { s.frequency_penalty = nan; }).starts_with("frequency_penalty"));
  CHECK(message([](Sampling& s) { s.logit_bias = {{100, 1.0F}}; }).starts_with("logit_bias"));
  CHECK(message([](Sampling& s) { s.logit_bias = {{-1, 1.0F}}; }).starts_with("logit_bias"));
}

TEST_CASE("only what is allowed is drawn, and counts") {
  constexpr std::size_t vocabulary = 130;
  std::vector<float> logits(vocabulary);
  for (std::size_t i = 0; i < vocabulary; ++i) logits[i] = static_cast<float>(i) * 0.01F;
  std::vector<std::uint64_t> allowed(3);
  const auto allow = [&](std::size_t id) { allowed[id / 64] |= std::uint64_t{1} << (id % 64); };
  allow(3);
  allow(64);
  allow(129);
  generation::Sampling sampling;
  for (const int top_k : {0, 2}) {
    for (const float temperature : {0.0F, 1.5F}) {
      sampling.top_k = top_k;
      sampling.temperature = temperature;
      std::set<std::int32_t> drawn;
      for (std::uint64_t seed = 0; seed < 200; ++seed) {
        sampling.seed = seed;
        generation::Sampler sampler(sampling, {}, vocabulary, table());
        drawn.insert(sampler.sample(logits, allowed).value());
      }
      if (temperature == 0) CHECK(drawn == std::set<std::int32_t>{129});
      if (temperature > 0 && top_k == 0) CHECK(drawn == std::set<std::int32_t>{3, 64, 129});
      if (temperature > 0 && top_k == 2) CHECK(drawn == std::set<std::int32_t>{64, 129});
    }
  }
  generation::Sampler sampler(sampling, {}, vocabulary, table());
  CHECK(sampler.sample(logits, std::vector<std::uint64_t>(3)).has_error());
  logits[5] = std::numeric_limits<float>::quiet_NaN();
  CHECK(sampler.sample(logits, allowed).has_error());
}
