// The elementary functions against the C library in double, and norms and gates against their definitions.
#include <algorithm>

#include "tests/catch.hpp"
#include "tests/kernels/samples.hpp"

namespace k3::kernels::test {
namespace {

constexpr float inf = std::numeric_limits<float>::infinity();

// Every step-th float of the non-negative ones up to limit, with both signs.
std::vector<float> sweep(std::uint32_t step, float limit) {
  std::vector<float> result;
  for (std::uint32_t bits = 0; bits <= std::bit_cast<std::uint32_t>(limit); bits += step) {
    result.push_back(std::bit_cast<float>(bits));
    result.push_back(-std::bit_cast<float>(bits));
  }
  return result;
}

std::vector<float> sigmoids(const Table& t, const std::vector<float>& x) {
  std::vector<float> y(x.size());
  t.sigmoid(x.data(), x.size(), y.data());
  return y;
}

// situ with a gate at which its left factor is 1 is tanh.
std::vector<float> tanhs(const Table& t, const std::vector<float>& x) {
  std::vector<float> y(x.size());
  const std::vector<float> open(x.size(), 100.0F);
  t.situ(open.data(), x.data(), x.size(), 1.0F, 1.0F, y.data());
  return y;
}

std::vector<float> exps(const Table& t, const std::vector<float>& x) {
  std::vector<float> y(x.size());
  std::transform(x.begin(), x.end(), y.begin(), t.exp);
  return y;
}

template <class Function>
double worst(const std::vector<float>& x, const std::vector<float>& y, const Function& exact) {
  double result = 0.0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double error = ulps(y[i], exact(static_cast<double>(x[i])));
    if (!(error <= result)) {
      result = error;
    }
  }
  return result;
}

}  // namespace

TEST_CASE("exp is within an ulp") {
  const Table& best = *select("");
  const auto all = sweep(1009, 104.0F);
  std::vector<float> x;
  std::copy_if(all.begin(), all.end(), std::back_inserter(x), [](float v) { return v < 88.7228F; });
  const double error = worst(x, exps(best, x), [](double v) { return std::exp(v); });
  CAPTURE(error);
  CHECK(error < 1.0);

  CHECK(best.exp(0.0F) == 1.0F);
  CHECK(best.exp(-0.0F) == 1.0F);
  CHECK(best.exp(88.7229F) == inf);
  CHECK(best.exp(std::numeric_limits<float>::max()) == inf);
  CHECK(best.exp(inf) == inf);
  CHECK(best.exp(-103.0F) > 0.0F);
  CHECK(best.exp(-104.0F) == 0.0F);
  CHECK(best.exp(std::numeric_limits<float>::lowest()) == 0.0F);
  CHECK(best.exp(-inf) == 0.0F);
  CHECK(std::isnan(best.exp(std::numeric_limits<float>::quiet_NaN())));
}

TEST_CASE("sigmoid is within two and a half ulp") {
  const Table& best = *select("");
  const auto x = sweep(1013, 104.0F);
  const double error = worst(x, sigmoids(best, x), [](double v) { return 1.0 / (1.0 + std::exp(-v)); });
  CAPTURE(error);
  CHECK(error < 2.5);
  const auto ends = sigmoids(best, {0.0F, inf, -inf, 200.0F, -200.0F});
  CHECK(ends == std::vector<float>{0.5F, 1.0F, 0.0F, 1.0F, 0.0F});
  CHECK(std::isnan(sigmoids(best, {std::numeric_limits<float>::quiet_NaN()})[0]));
}

TEST_CASE("tanh is within two ulp, near 0 too") {
  const Table& best = *select("");
  const auto x = sweep(1013, 20.0F);
  const double error = worst(x, tanhs(best, x), [](double v) { return std::tanh(v); });
  CAPTURE(error);
  CHECK(error < 2.0);
  const float tiny = std::numeric_limits<float>::denorm_min();
  const auto ends = tanhs(best, {0.0F, -0.0F, inf, -inf, 3e38F, tiny, -tiny, 1e-20F});
  CHECK(difference({0.0F, -0.0F, 1.0F, -1.0F, 1.0F, tiny, -tiny, 1e-20F}, ends).empty());
  CHECK(std::isnan(tanhs(best, {std::numeric_limits<float>::quiet_NaN()})[0]));
}

TEST_CASE("elementary functions have the same bits on all tiers") {
  const auto x = sweep(60013, inf);
  for (const Table* table : supported_tables()) {
    CAPTURE(table->name);
    CHECK(difference(exps(scalar(), x), exps(*table, x)).empty());
    CHECK(difference(sigmoids(scalar(), x), sigmoids(*table, x)).empty());
    CHECK(difference(tanhs(scalar(), x), tanhs(*table, x)).empty());
  }
}

TEST_CASE("norms follow their definitions") {
  for (const std::size_t n : {1, 16, 100, 7168}) {
    auto x = floats(n, 0, 1);
    auto w = floats(n, 0, 2);
    double squares = 0.0;
    double products = 0.0;
    double size = 0.0;
    for (std::size_t i = 0; i < n; ++i) {
      squares += static_cast<double>(x[i]) * x[i];
      products += static_cast<double>(x[i]) * w[i];
      size += std::fabs(static_cast<double>(x[i]) * w[i]);
    }
    const double count = static_cast<double>(n);
    const double mean_factor = 1.0 / std::sqrt(squares / count + static_cast<double>(1e-5F));
    const double sum_factor = 1.0 / std::sqrt(squares + static_cast<double>(1e-6F));
    // The sum of squares errs by at most this part, its root by half of it; the rest is a few single roundings.
    const double part = (count / 16.0 + 4.0) * 0x1p-25 + 6 * 0x1p-24;
    for (const Table* table : supported_tables()) {
      std::vector<float> y(n);
      table->rms_norm(x.data(), w.data(), n, 1e-5F, y.data());
      std::vector<float> z(n);
      table->l2_normalise(x.data(), n, 1e-6F, 0.25F, z.data());
      for (std::size_t i = 0; i < n; ++i) {
        REQUIRE(y[i] == Approx(x[i] * mean_factor * w[i]).epsilon(part));
        REQUIRE(z[i] == Approx(x[i] * sum_factor * 0.25).epsilon(part));
      }
      CHECK(std::fabs(table->normed_dot(x.data(), w.data(), n, 1e-5F) - products * mean_factor) <= 3 * part * size * mean_factor);
    }
  }
}

TEST_CASE("gates follow their definitions") {
  const std::size_t n = 1000;
  std::vector<float> g(n);
  std::vector<float> u(n);
  for (std::size_t i = 0; i < n; ++i) {
    g[i] = -30.0F + 0.06F * static_cast<float>(i);
    u[i] = 60.0F * std::sin(static_cast<float>(i));
  }
  const auto sigmoid = [](double v) { return 1.0 / (1.0 + std::exp(-v)); };
  for (const Table* table : supported_tables()) {
    std::vector<float> y(n);
    table->situ(g.data(), u.data(), n, 4.0F, 25.0F, y.data());
    std::vector<float> product = u;
    table->multiply_sigmoid(g.data(), n, product.data());
    std::vector<float> decay(n);
    table->kda_decay(g.data(), u.data(), 0.5F, -5.0F, n, decay.data());
    for (std::size_t i = 0; i < n; ++i) {
      const double gd = g[i];
      const double ud = u[i];
      REQUIRE(y[i] == Approx(4.0 * std::tanh(gd / 4.0) * sigmoid(gd) * 25.0 * std::tanh(ud / 25.0)).epsilon(1e-6).margin(1e-30));
      REQUIRE(product[i] == Approx(ud * sigmoid(gd)).epsilon(1e-6).margin(1e-30));
      // The exponent goes to -5 and its sum to 60, so 3 ulp there are 1e-6 of the result.
      REQUIRE(decay[i] == Approx(std::exp(-5.0 * sigmoid(0.5 * (gd + ud)))).epsilon(3e-6));
    }
  }
}

}  // namespace k3::kernels::test
