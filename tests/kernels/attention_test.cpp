// Softmax whole and by blocks, the convolution and the delta rule against plain double loops.
#include "tests/catch.hpp"
#include "tests/kernels/samples.hpp"

namespace k3::kernels::test {
namespace {

constexpr float inf = std::numeric_limits<float>::infinity();

std::vector<double> softmax_reference(const std::vector<float>& x) {
  double max = -HUGE_VAL;
  for (const float v : x) {
    max = std::fmax(max, static_cast<double>(v));
  }
  double sum = 0.0;
  std::vector<double> result;
  for (const float v : x) {
    result.push_back(std::exp(static_cast<double>(v) - max));
    sum += result.back();
  }
  for (double& v : result) {
    v /= sum;
  }
  return result;
}

}  // namespace

TEST_CASE("softmax is near its reference") {
  for (const Table* table : supported_tables()) {
    for (const std::size_t n : {1, 5, 16, 33, 1000}) {
      auto x = floats(n, 0, n).values();
      for (float& v : x) {
        v *= 5.0F;
      }
      const auto expected = softmax_reference(x);
      table->softmax(x.data(), n);
      for (std::size_t i = 0; i < n; ++i) {
        // x - max rounds once: half an ulp of 30 is 1e-6.
        REQUIRE(x[i] == Approx(expected[i]).epsilon(5e-6));
      }
    }
    float masked[] = {1.0F, -inf, 1.0F};
    table->softmax(masked, 3);
    CHECK(masked[0] == 0.5F);
    CHECK(masked[1] == 0.0F);
    float poisoned[] = {std::numeric_limits<float>::quiet_NaN(), 1.0F, 2.0F};
    table->softmax(poisoned, 3);
    CHECK(std::isnan(poisoned[1]));
  }
}

TEST_CASE("attention by blocks of online softmax is the whole softmax") {
  constexpr std::size_t count = 100;
  constexpr std::size_t n = 37;
  auto q = floats(n, 0, 1);
  auto rows = floats(count * n, 0, 2);
  std::vector<float> scores(count);
  for (const Table* table : supported_tables()) {
    table->matmul_f32(rows.data(), count, n, q.data(), 1, n, scores.data(), count);
    table->scale(0.2F, scores.data(), count, scores.data());
    for (std::size_t j = 0; j < count; ++j) {
      double exact = 0.0;
      for (std::size_t i = 0; i < n; ++i) {
        exact += static_cast<double>(q[i]) * static_cast<double>(rows[j * n + i]);
      }
      REQUIRE(std::fabs(scores[j] - 0.2 * exact) < 1e-5);
    }
    const auto weights = softmax_reference(scores);
    for (const std::size_t block : {1, 7, 32, 100}) {
      auto left = scores;
      std::vector<float> acc(n, 0.0F);
      float max = -inf;
      float sum = 0.0F;
      for (std::size_t at = 0; at < count; at += block) {
        const std::size_t size = std::min(block, count - at);
        const float kept = table->online_softmax(&left[at], size, &max, &sum);
        if (at == 0) {
          CHECK(kept == 0.0F);
        }
        table->scale(kept, acc.data(), n, acc.data());
        table->accumulate_rows(&left[at], size, 1, rows.data() + at * n, n, size, n, acc.data(), n);
      }
      for (std::size_t i = 0; i < n; ++i) {
        double exact = 0.0;
        for (std::size_t j = 0; j < count; ++j) {
          exact += weights[j] * static_cast<double>(rows[j * n + i]);
        }
        REQUIRE(std::fabs(acc[i] / sum - exact) < 2e-5);
      }
    }
  }
}

TEST_CASE("blocks that hide every score weigh nothing") {
  for (const Table* table : supported_tables()) {
    float max = -inf;
    float sum = 0.0F;
    float hidden[] = {-inf, -inf, -inf};
    CHECK(table->online_softmax(hidden, 3, &max, &sum) == 0.0F);
    CHECK(hidden[1] == 0.0F);
    CHECK(sum == 0.0F);
    CHECK(max == -inf);
    float seen[] = {2.0F, 2.0F};
    CHECK(table->online_softmax(seen, 2, &max, &sum) == 0.0F);
    CHECK(sum == 2.0F);
    float again[] = {-inf};
    CHECK(table->online_softmax(again, 1, &max, &sum) == 1.0F);
    CHECK(sum == 2.0F);
    CHECK(table->online_softmax(again, 0, &max, &sum) == 1.0F);
    CHECK(max == 2.0F);
  }
}

TEST_CASE("accumulate_rows is one ascending chain an element") {
  constexpr std::size_t n = 150;
  constexpr std::size_t count = 9;
  auto p = floats(count, 0, 1);
  auto rows = floats(count * n, 0, 2);
  for (const Table* table : supported_tables()) {
    auto acc = floats(n, 0, 3);
    auto expected = acc;
    for (std::size_t i = 0; i < n; ++i) {
      for (std::size_t j = 0; j < count; ++j) {
        expected[i] = std::fma(p[j], rows[j * n + i], expected[i]);
      }
    }
    table->accumulate_rows(p.data(), count, 1, rows.data(), n, count, n, acc.data(), n);
    CHECK(difference(expected.values(), acc.values()).empty());
  }
}

TEST_CASE("the convolution follows its definition, and its tail chains") {
  constexpr std::size_t tokens = 9;
  for (const Table* table : supported_tables()) {
    for (const std::size_t n : {1, 16, 37}) {
      auto w = floats(4 * n, 1, 1);
      auto inputs = floats((tokens + 3) * n, 1, 2);  // rows 0..2 come before the first token
      std::vector<float> tail(inputs.data(), inputs.data() + 3 * n);
      for (std::size_t t = 0; t < tokens; ++t) {
        std::vector<float> y(n);
        const float* const x = inputs.data() + (t + 3) * n;
        if (t % 2 == 0) {
          table->conv4_silu(w.data(), x, tail.data(), n, tail.data(), y.data());
        } else {
          std::vector<float> next(3 * n);
          table->conv4_silu(w.data(), x, tail.data(), n, next.data(), y.data());
          tail = next;
        }
        CHECK(difference({inputs.data() + (t + 1) * n, inputs.data() + (t + 4) * n}, tail).empty());
        for (std::size_t c = 0; c < n; ++c) {
          double sum = 0.0;
          for (std::size_t j = 0; j < 4; ++j) {
            sum += static_cast<double>(w[c * 4 + j]) * static_cast<double>(inputs[(t + j) * n + c]);
          }
          REQUIRE(std::fabs(y[c] - sum / (1.0 + std::exp(-sum))) < 1e-5);
        }
      }
    }
  }
}

TEST_CASE("the delta rule follows its definition, in place and out of place") {
  for (const std::size_t keys : {1, 5, 128}) {
    for (const std::size_t values : {1, 16, 70, 128}) {
      auto state = floats(keys * values, 0, 1);
      auto q = floats(keys, 0, 2);
      auto k = floats(keys, 0, 3);
      auto v = floats(values, 0, 4);
      auto decay = floats(keys, 0, 5);
      for (std::size_t d = 0; d < keys; ++d) {
        k[d] /= static_cast<float>(keys);
        decay[d] = 0.5F + decay[d] / 7.0F;
      }
      std::vector<double> exact(keys * values);
      std::vector<double> exact_out(values, 0.0);
      for (std::size_t j = 0; j < values; ++j) {
        double u = 0.0;
        for (std::size_t d = 0; d < keys; ++d) {
          exact[d * values + j] = static_cast<double>(state[d * values + j]) * decay[d];
          u += exact[d * values + j] * k[d];
        }
        for (std::size_t d = 0; d < keys; ++d) {
          exact[d * values + j] += k[d] * (static_cast<double>(0.6F) * (v[j] - u));
          exact_out[j] += exact[d * values + j] * q[d];
        }
      }
      for (const Table* table : supported_tables()) {
        std::vector<float> out(values);
        std::vector<float> next(keys * values);
        table->kda_step(state.data(), q.data(), k.data(), v.data(), decay.data(), 0.6F, keys, values, next.data(), out.data());
        for (std::size_t i = 0; i < next.size(); ++i) {
          REQUIRE(std::fabs(next[i] - exact[i]) < 1e-5);
        }
        for (std::size_t j = 0; j < values; ++j) {
          REQUIRE(std::fabs(out[j] - exact_out[j]) < 3e-4);
        }
        auto in_place = state.values();
        std::vector<float> out_in_place(values);
        table->kda_step(in_place.data(), q.data(), k.data(), v.data(), decay.data(), 0.6F, keys, values, in_place.data(),
                        out_in_place.data());
        CHECK(difference(next, in_place).empty());
        CHECK(difference(out, out_in_place).empty());
      }
    }
  }
}

}  // namespace k3::kernels::test
