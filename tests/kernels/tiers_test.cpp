// Every kernel on every tier this machine has, against the scalar tier, bit by bit.
#include <functional>

#include "tests/catch.hpp"
#include "tests/kernels/samples.hpp"

namespace k3::kernels::test {
namespace {

struct Input {
  std::size_t n, offset;
  Kind kind;
};
using Run = std::function<std::vector<float>(const Table&, const Input&)>;
struct Case {
  const char* name;
  Run run;
};

// Values after the results: a kernel that writes beyond n changes them.
constexpr std::size_t guard = 20;

Floats output(const Input& in, std::uint64_t seed) { return floats(in.n + guard, in.offset, seed, in.kind); }

std::vector<float> softmax_blocks(const Table& t, const Input& in) {
  auto scores = output(in, 1);
  float max = -std::numeric_limits<float>::infinity();
  float sum = 0.0F;
  const std::size_t first = in.n / 3;
  const float kept_first = t.online_softmax(scores.data(), first, &max, &sum);
  const float kept = t.online_softmax(scores.data() + first, in.n - first, &max, &sum);
  auto result = scores.values();
  result.insert(result.end(), {max, sum, kept_first, kept});
  return result;
}

std::vector<float> convolution(const Table& t, const Input& in) {
  auto w = floats(4 * in.n, in.offset, 1, in.kind);
  auto tail = floats(3 * in.n, in.offset, 2, in.kind);
  auto y = output(in, 3);
  for (std::uint64_t token = 0; token < 3; ++token) {
    auto x = floats(in.n, in.offset, 4 + token, in.kind);
    t.conv4_silu(w.data(), x.data(), tail.data(), in.n, tail.data(), y.data());
  }
  auto result = y.values();
  const auto after = tail.values();
  result.insert(result.end(), after.begin(), after.end());
  return result;
}

std::vector<float> delta_rule(const Table& t, const Input& in) {
  constexpr std::size_t keys = 7;
  auto state = floats(keys * in.n, in.offset, 1, in.kind);
  auto q = floats(keys, in.offset, 2);
  auto k = floats(keys, in.offset, 3);
  auto v = floats(in.n, in.offset, 4, in.kind);
  auto decay = floats(keys, in.offset, 5);
  auto out = output(in, 6);
  t.kda_step(state.data(), q.data(), k.data(), v.data(), decay.data(), 0.7F, keys, in.n, state.data(), out.data());
  auto result = out.values();
  const auto after = state.values();
  result.insert(result.end(), after.begin(), after.end());
  return result;
}

std::vector<float> weighted_sums(const Table& t, const Input& in) {
  constexpr std::size_t count = 19;
  const std::size_t stride = in.n + 3;
  auto rows = floats(stride * count, in.offset, 1, in.kind);
  // Sums side by side: whole tiles of them and a remainder.
  constexpr std::size_t queries = 6;
  auto acc = floats(queries * (in.n + 1) + guard, in.offset, 4, in.kind);
  auto p = floats(queries * (count + 2), in.offset, 5, in.kind);
  t.accumulate_rows(p.data(), count + 2, queries, rows.data(), stride, count, in.n, acc.data(), in.n + 1);
  return acc.values();
}

// One input vector, one output.
template <class Function>
Run unary(Function f) {
  return [f](const Table& t, const Input& in) {
    auto x = floats(in.n, in.offset, 1, in.kind);
    auto y = output(in, 2);
    f(t, x.data(), in.n, y.data());
    return y.values();
  };
}

template <class Function>
Run binary(Function f) {
  return [f](const Table& t, const Input& in) {
    auto a = floats(in.n, in.offset, 1, in.kind);
    auto b = floats(in.n, (in.offset * 5) % 7, 2, in.kind);
    auto y = output(in, 3);
    f(t, a.data(), b.data(), in.n, y.data());
    return y.values();
  };
}

std::vector<Case> cases() {
  using C = const float*;
  using N = std::size_t;
  return {
      {"add", unary([](const Table& t, C x, N n, float* y) { t.add(x, n, y); })},
      {"axpy", unary([](const Table& t, C x, N n, float* y) { t.axpy(1.7F, x, n, y); })},
      {"scale", unary([](const Table& t, C x, N n, float* y) { t.scale(1.7F, x, n, y); })},
      {"l2_normalise", unary([](const Table& t, C x, N n, float* y) { t.l2_normalise(x, n, 1e-6F, 0.1F, y); })},
      {"sigmoid", unary([](const Table& t, C x, N n, float* y) { t.sigmoid(x, n, y); })},
      {"multiply_sigmoid", unary([](const Table& t, C x, N n, float* y) { t.multiply_sigmoid(x, n, y); })},
      {"exp", unary([](const Table& t, C x, N n, float* y) {
         for (N i = 0; i < n; ++i) {
           y[i] = t.exp(30.0F * x[i]);
         }
       })},
      {"softmax", unary([](const Table& t, C, N n, float* y) {
         if (n > 0) {
           t.softmax(y, n);
         }
       })},
      {"dot", binary([](const Table& t, C a, C b, N n, float* y) { y[0] = t.dot(a, b, n); })},
      {"rms_norm", binary([](const Table& t, C a, C b, N n, float* y) { t.rms_norm(a, b, n, 1e-5F, y); })},
      {"normed_dot", binary([](const Table& t, C a, C b, N n, float* y) { y[0] = t.normed_dot(a, b, n, 1e-5F); })},
      {"situ", binary([](const Table& t, C a, C b, N n, float* y) { t.situ(a, b, n, 4.0F, 25.0F, y); })},
      {"kda_decay", binary([](const Table& t, C a, C b, N n, float* y) { t.kda_decay(a, b, 1.3F, -5.0F, n, y); })},
      {"widen_bf16",
       [](const Table& t, const Input& in) {
         auto x = halves(in.n, in.offset, 1, in.kind);
         auto y = output(in, 2);
         t.widen_bf16(x.data(), in.n, y.data());
         return y.values();
       }},
      {"online_softmax", softmax_blocks},
      {"conv4_silu", convolution},
      {"kda_step", delta_rule},
      {"accumulate_rows", weighted_sums},
  };
}

std::vector<std::size_t> sizes() {
  std::vector<std::size_t> result = {96, 127, 128, 129, 192, 256, 300, 511, 1024};
  for (std::size_t n = 0; n <= 67; ++n) {
    result.push_back(n);
  }
  return result;
}

}  // namespace

TEST_CASE("every kernel gives the bits of the scalar tier") {
  for (const Case& c : cases()) {
    for (const std::size_t n : sizes()) {
      for (const std::size_t offset : {0, 1, 3, 8}) {
        for (const Kind kind : {Kind::plain, Kind::denormal, Kind::special}) {
          const Input in{n, offset, kind};
          const auto expected = c.run(scalar(), in);
          for (const Table* table : supported_tables()) {
            const std::string where = difference(expected, c.run(*table, in));
            if (!where.empty()) {
              FAIL(table->name << " " << c.name << " n " << n << " offset " << offset << " kind " << static_cast<int>(kind) << ": "
                               << where);
            }
          }
        }
      }
    }
  }
}

TEST_CASE("each tail element takes part, and nothing beyond it") {
  for (const Table* table : supported_tables()) {
    for (std::size_t n = 1; n <= 40; ++n) {
      std::vector<float> a(n, 0.0F);
      std::vector<float> b(n, 1.0F);
      for (std::size_t i = 0; i < n; ++i) {
        a[i] = std::ldexp(1.0F, static_cast<int>(i % 20));
        REQUIRE(table->dot(a.data(), b.data(), n) == a[i]);
        a[i] = 0.0F;
      }
    }
  }
}

TEST_CASE("a sum goes by 16 lanes and one tree") {
  // The definition itself, written out: all tiers agreeing on another order would not be the arithmetic that is promised.
  for (const std::size_t n : {1, 15, 16, 17, 40, 333}) {
    auto a = floats(n, 0, 21);
    auto b = floats(n, 0, 22);
    float lane[16] = {};
    for (std::size_t i = 0; i < n; ++i) {
      lane[i % 16] = std::fma(a[i], b[i], lane[i % 16]);
    }
    for (std::size_t width = 8; width > 0; width /= 2) {
      for (std::size_t j = 0; j < width; ++j) {
        lane[j] += lane[j + width];
      }
    }
    for (const Table* table : supported_tables()) {
      CHECK(same(table->dot(a.data(), b.data(), n), lane[0]));
    }
  }
}

TEST_CASE("a lane that the tail leaves out keeps a negative zero") {
  // -2^-151 rounds to -0 in every lane, and only lanes that are all -0 add to -0: one fma of 0 and 0 would make it +0.
  constexpr std::size_t n = 17;
  std::vector<float> a(2 * n, -std::numeric_limits<float>::denorm_min());
  std::vector<float> b(2 * n, 0.25F);
  for (const Table* table : supported_tables()) {
    CAPTURE(table->name);
    CHECK(same(table->dot(a.data(), b.data(), n), -0.0F));
    std::vector<float> y(3);
    table->matmul_f32(a.data(), 1, n, b.data(), 1, n, y.data(), 1);
    table->matmul_f32(a.data(), 1, n, b.data(), 2, n, y.data() + 1, 1);
    CHECK(difference({-0.0F, -0.0F, -0.0F}, y).empty());
    table->matmul_f32(b.data(), 1, n, a.data(), 1, n, y.data(), 1);
    CHECK(same(y[0], -0.0F));
  }
}

TEST_CASE("kernels work in place where the table says so") {
  for (const Table* table : supported_tables()) {
    const std::size_t n = 53;
    auto x = floats(n, 1, 31);
    auto w = floats(n, 0, 32);
    using C = const float*;
    const std::vector<std::function<void(C, float*)>> kernels = {
        [&](C in, float* out) { table->scale(0.3F, in, n, out); },
        [&](C in, float* out) { table->rms_norm(in, w.data(), n, 1e-5F, out); },
        [&](C in, float* out) { table->l2_normalise(in, n, 1e-6F, 2.0F, out); },
        [&](C in, float* out) { table->sigmoid(in, n, out); },
        [&](C in, float* out) { table->situ(in, w.data(), n, 4.0F, 25.0F, out); },
        [&](C in, float* out) { table->situ(w.data(), in, n, 4.0F, 25.0F, out); },
        [&](C in, float* out) { table->kda_decay(in, w.data(), 1.1F, -5.0F, n, out); },
    };
    for (const auto& kernel : kernels) {
      Floats apart(n, 2);
      kernel(x.data(), apart.data());
      Floats in_place = x;
      kernel(in_place.data(), in_place.data());
      CHECK(difference(apart.values(), in_place.values()).empty());
    }
  }
}

TEST_CASE("tiers are found by name") {
  REQUIRE(tables().size() == 4);
  CHECK(std::string(tables().back()->name) == "scalar");
  for (const Table* table : tables()) {
    CHECK(find(table->name) == table);
    CHECK(select(table->name) == (supported(*table) ? table : nullptr));
  }
  CHECK(supported(scalar()));
  CHECK(select("") == supported_tables().front());
  CHECK(select("auto") == supported_tables().front());
  CHECK(select("neon") == nullptr);
  CHECK(select("AVX2") == nullptr);
  CHECK(find("auto") == nullptr);
  const Table stranger = scalar();
  CHECK_FALSE(supported(stranger));
}

}  // namespace k3::kernels::test
