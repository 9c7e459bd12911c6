#include "model/layers/router.hpp"

#include <limits>

#include "tests/catch.hpp"

using k3::layers::Choice;
using k3::layers::choose_experts;

TEST_CASE("the bias chooses, the unbiased score weighs") {
  const std::vector<float> scores{0.5F, 0.4F, 0.3F, 0.2F}, bias{0.0F, 0.0F, 0.0F, 1.0F};
  std::vector<Choice> chosen;
  choose_experts(scores, bias, 2, 2.0F, 1.0F, chosen);
  REQUIRE(chosen.size() == 2);
  CHECK(chosen[0].expert == 0);
  CHECK(chosen[1].expert == 3);
  CHECK(chosen[0].weight == Approx(0.5 / 0.7 * 2));
  CHECK(chosen[1].weight == Approx(0.2 / 0.7 * 2));
}

TEST_CASE("ties go to the lower id, order is ascending") {
  const std::vector<float> scores(8, 0.25F), bias(8, 0.0F);
  std::vector<Choice> chosen;
  choose_experts(scores, bias, 3, 1.0F, 1.0F, chosen);
  REQUIRE(chosen.size() == 3);
  for (std::uint32_t i = 0; i < 3; ++i) CHECK(chosen[i].expert == i);
}

TEST_CASE("NaN scores are chosen last and upset nothing") {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> scores{nan, 0.1F, nan, 0.2F}, bias(4, 0.0F);
  std::vector<Choice> chosen;
  choose_experts(scores, bias, 2, 1.0F, 1.0F, chosen);
  REQUIRE(chosen.size() == 2);
  CHECK(chosen[0].expert == 1);
  CHECK(chosen[1].expert == 3);
}

TEST_CASE("an expert's worth falls with its rank in the row, and adds up over rows") {
  const std::vector<Choice> row{{1, 0.1F}, {2, 0.7F}, {5, 0.2F}};
  std::vector<float> worth(6);
  k3::layers::add_worth(row, 1.0F, worth);
  CHECK(worth == std::vector<float>{0, 0.5F, 1, 0, 0, 0.75F});
  k3::layers::add_worth(row, 0.5F, worth);
  CHECK(worth[2] == 1.5F);
}

TEST_CASE("expert top-p keeps the fewest that reach the share; 1 is off") {
  const std::vector<float> scores{0.1F, 0.6F, 0.2F, 0.1F}, bias(4, 0.0F);
  std::vector<Choice> chosen;
  choose_experts(scores, bias, 4, 1.0F, 1.0F, chosen);
  CHECK(chosen.size() == 4);
  choose_experts(scores, bias, 4, 1.0F, 0.75F, chosen);
  REQUIRE(chosen.size() == 2);
  CHECK(chosen[0].expert == 1);
  CHECK(chosen[1].expert == 2);
  CHECK(chosen[0].weight + chosen[1].weight == Approx(1.0));
  choose_experts(scores, bias, 4, 1.0F, 0.0F, chosen);
  CHECK(chosen.size() == 1);
}
