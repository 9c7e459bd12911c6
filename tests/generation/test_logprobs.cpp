#include <algorithm>
#include <cmath>
#include <limits>

#include "model/generation/logprobs.hpp"
#include "model/generation/sampler.hpp"
#include "tests/catch.hpp"

using namespace k3;
using generation::token_logprobs;

namespace {

std::vector<float> scrambled(std::size_t count) {
  std::vector<float> logits(count);
  for (std::size_t i = 0; i < count; ++i) logits[i] = static_cast<float>(generation::uniform(5, i) * 40 - 20);
  return logits;
}

// The textbook's, in double.
double logprob(const std::vector<float>& logits, std::size_t id) {
  double sum = 0;
  for (const float logit : logits) sum += std::exp(static_cast<double>(logit) - static_cast<double>(logits[id]));
  return -std::log(sum);
}

}  // namespace

TEST_CASE("log-probabilities are the log-softmax of the logits, in every instruction set the same") {
  const auto logits = scrambled(5000);
  std::shared_ptr<const TokenLogprobs> first;
  for (const kernels::Table* table : kernels::tables()) {
    if (!kernels::supported(*table)) continue;
    INFO(table->name);
    for (const std::size_t id : {0U, 17U, 4999U}) {
      const auto got = token_logprobs(logits, static_cast<std::int32_t>(id), 0, *table);
      // Each power is right to some float32 roundings, and so is their sum, relative to itself.
      CHECK(std::abs(static_cast<double>(got->own) - logprob(logits, id)) < 1e-5);
      CHECK(got->top.empty());
    }
    const auto got = token_logprobs(logits, 3, 20, *table);
    if (!first) first = got;
    CHECK(got->own == first->own);
    CHECK(got->top == first->top);
  }
}

TEST_CASE("the most probable tokens come in their order, equal ones by id") {
  const auto& table = *kernels::select("auto");
  const auto logits = scrambled(5000);
  std::vector<std::int32_t> order(logits.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = static_cast<std::int32_t>(i);
  std::sort(order.begin(), order.end(), [&](auto a, auto b) {
    const float left = logits[static_cast<std::size_t>(a)], right = logits[static_cast<std::size_t>(b)];
    return left != right ? left > right : a < b;
  });
  const auto got = token_logprobs(logits, order[2], 20, table);
  REQUIRE(got->top.size() == 20);
  for (std::size_t i = 0; i < 20; ++i) CHECK(got->top[i].first == order[i]);
  CHECK(got->top[2].second == got->own);
  const auto equal = token_logprobs(std::vector<float>{1, 2, 2, 1, 2}, 0, 4, table);
  const std::int32_t ids[] = {1, 2, 4, 0};
  for (std::size_t i = 0; i < 4; ++i) CHECK(equal->top[i].first == ids[i]);
}

TEST_CASE("few tokens, huge logits and impossible tokens") {
  const auto& table = *kernels::select("auto");
  const float never = -std::numeric_limits<float>::infinity();
  const auto got = token_logprobs(std::vector<float>{3e38F, never, 3e38F}, 0, 20, table);
  CHECK(std::abs(got->own + std::log(2.0F)) < 1e-6F);
  REQUIRE(got->top.size() == 3);
  CHECK(got->top[2] == std::pair<std::int32_t, float>(1, never));
  CHECK(token_logprobs(std::vector<float>{-1000}, 0, 1, table)->own == 0);
}
