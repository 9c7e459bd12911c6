// The layer loop against float64, and against itself: the same bits however the work is cut up.
#include "tests/forward/golden.hpp"

#include <cstring>

#include "tests/catch.hpp"
#include "tests/forward/fixture.hpp"

using namespace k3;
using namespace k3::test;

namespace {
bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}
}  // namespace

TEST_CASE("logits and every layer's running sum match the float64 vectors") {
  const Golden want = golden();
  Runner runner(tiny(), {1, 4, "", true, {}});
  auto sequence = runner.sequence();
  std::vector<float> hidden;
  const auto logits = runner.feed(*sequence, want.tokens, 512, &hidden);
  REQUIRE(logits.size() == want.logits.size());
  REQUIRE(hidden.size() == want.hidden.size());
  // 2e-5: float32 noise of 13 layers; a wrong epsilon (1e-5 for 1e-6 in the latent norms) already shows at 1e-4.
  CHECK(relative_l2(logits, want.logits) <= 2e-5);
  const std::size_t layer = want.tokens.size() * tiny().checkpoint.config().hidden;
  for (std::size_t i = 0; i * layer < hidden.size(); ++i) {
    CAPTURE(i);
    CHECK(relative_l2(std::span(hidden).subspan(i * layer, layer), std::span(want.hidden).subspan(i * layer, layer)) <= 2e-5);
  }
}

// Of the first layer only: further on the random router of this model sends rows elsewhere for the smallest of differences.
TEST_CASE("fast products stay near the exact ones") {
  const Golden want = golden();
  Runner runner(tiny());
  auto sequence = runner.sequence();
  std::vector<float> hidden;
  runner.feed(*sequence, want.tokens, 512, &hidden);
  const std::size_t layer = want.tokens.size() * tiny().checkpoint.config().hidden;
  const double error = relative_l2(std::span(hidden).first(layer), std::span(want.hidden).first(layer));
  CAPTURE(error);
  CHECK(error <= 0.01);  // two roundings to 8 bits (bf16 activations have as many) in a row
  CHECK(error > 2e-5);   // else it is not the fast arithmetic that ran
}

namespace {
struct Mode {
  const char* name;
  checkpoint::Precision precision;
  bool exact;
};
const std::vector<Mode> modes{{"exact", checkpoint::Precision::bf16, true},
                              {"bf16", checkpoint::Precision::bf16, false},
                              {"int8", checkpoint::Precision::int8, false},
                              {"int4", checkpoint::Precision::int4, false}};
}  // namespace

TEST_CASE("bits depend neither on chunk size, threads, slots nor instruction set") {
  const Golden want = golden();
  const Mode mode = GENERATE(from_range(modes));
  const Loaded& loaded = tiny_in(mode.precision);
  const bool exact = mode.exact;
  Runner reference(loaded, {1, 4, "", exact, {}});
  auto sequence = reference.sequence();
  std::vector<float> hidden;
  const auto logits = reference.feed(*sequence, want.tokens, want.tokens.size(), &hidden);
  struct Variant {
    std::size_t chunk;
    RunnerOptions options;
  };
  std::vector<Variant> variants{{1, {1, 4, "", exact, {}}}, {7, {1, 4, "", exact, {}}},  {512, {2, 4, "", exact, {}}},
                                {5, {3, 1, "", exact, {}}}, {3, {2, 12, "", exact, {}}}, {9, {2, 144, "", exact, {}}}};
  for (const auto* table : kernels::tables()) {
    if (kernels::supported(*table)) variants.push_back({11, {2, 5, table->name, exact, {}}});
  }
  for (const auto& variant : variants) {
    CAPTURE(mode.name, variant.chunk, variant.options.threads, variant.options.slots, variant.options.isa);
    Runner runner(loaded, variant.options);
    auto other = runner.sequence();
    std::vector<float> other_hidden;
    CHECK(same_bits(runner.feed(*other, want.tokens, variant.chunk, &other_hidden), logits));
    CHECK(same_bits(other_hidden, hidden));
  }
}

TEST_CASE("a trunk read as it goes gives the same bits") {
  const Golden want = golden();
  const checkpoint::TrunkSizes sizes = checkpoint::trunk_sizes(tiny().checkpoint, 0, {});
  REQUIRE(sizes.streamable > 0);
  for (const bool exact : {true, false}) {
    Runner reference(tiny(), {1, 4, "", exact, {}});
    auto sequence = reference.sequence();
    const auto logits = reference.feed(*sequence, want.tokens, want.tokens.size());
    for (const std::uint64_t resident : {std::uint64_t{0}, sizes.streamable / 3, sizes.streamable}) {
      const Loaded loaded = tiny_with(resident);
      CHECK(loaded.weights.bytes <= sizes.fixed + resident);
      CHECK(loaded.weights.streamed.empty() == (resident == sizes.streamable));
      CHECK(loaded.weights.streamed_embedding.has_value());
      for (const std::size_t chunk : {1U, 7U, 64U}) {
        CAPTURE(exact, resident, chunk);
        Runner runner(loaded, {2, 4, "", exact, {}});
        auto other = runner.sequence();
        CHECK(same_bits(runner.feed(*other, want.tokens, chunk), logits));
      }
    }
  }
}

TEST_CASE("latents in bf16 stay near, and their bits depend on nothing either") {
  const Golden want = golden();
  Runner reference(tiny(), {1, 4, "", true, {}, LatentFormat::bf16});
  auto sequence = reference.sequence();
  std::vector<float> hidden;
  const auto logits = reference.feed(*sequence, want.tokens, want.tokens.size(), &hidden);
  for (const std::size_t chunk : {1U, 7U, 64U}) {
    for (const auto* table : kernels::tables()) {
      if (!kernels::supported(*table)) continue;
      CAPTURE(chunk, table->name);
      Runner runner(tiny(), {2, 4, table->name, true, {}, LatentFormat::bf16});
      auto other = runner.sequence();
      CHECK(same_bits(runner.feed(*other, want.tokens, chunk), logits));
    }
  }
  // Up to and with the first layer of latent attention; the random router behind it sends rows elsewhere for the smallest of
  // differences.
  const auto& is_kda = tiny().checkpoint.config().is_kda;
  const std::size_t first = std::find(is_kda.begin(), is_kda.end(), false) - is_kda.begin();
  const std::size_t layer = want.tokens.size() * tiny().checkpoint.config().hidden;
  const double error =
      relative_l2(std::span(hidden).subspan(first * layer, layer), std::span(want.hidden).subspan(first * layer, layer));
  CAPTURE(error);
  CHECK(error <= 2e-3);  // 2^-9 is what a rounding to bf16 takes at most
  CHECK(error > 2e-6);   // else nothing was rounded
}

TEST_CASE("a row's bits do not depend on its company") {
  const Golden want = golden();
  const std::span<const std::int32_t> tokens(want.tokens);
  const Mode mode = GENERATE(from_range(modes));
  const Loaded& loaded = tiny_in(mode.precision);
  const bool exact = mode.exact;
  Runner runner(loaded, {2, 3, "", exact, {}});
  auto alone = runner.sequence();
  const auto logits = runner.feed(*alone, tokens, 4);
  const std::size_t vocabulary = loaded.checkpoint.config().vocabulary;

  // Three sequences share each step: one prefilling in chunks of 4, one decoding, one prefilling something else.
  auto a = runner.sequence(), b = runner.sequence(), c = runner.sequence();
  std::vector<float> got;
  for (std::size_t step = 0; step < tokens.size() / 4; ++step) {
    std::vector<Row> rows;
    rows.push_back({b.get(), tokens[step], true});
    for (std::size_t i = 0; i < 4; ++i) rows.push_back({a.get(), tokens[step * 4 + i], true});
    for (std::size_t i = 0; i < 2; ++i) rows.push_back({c.get(), tokens[39 - step * 2 - i], true});
    const auto result = runner.step(rows).value();
    got.insert(got.end(), result.logits.begin() + static_cast<std::ptrdiff_t>(vocabulary),
               result.logits.begin() + static_cast<std::ptrdiff_t>(5 * vocabulary));
    // The decoding sequence saw the same tokens, one a step.
    CHECK(std::memcmp(result.logits.data(), &logits[step * vocabulary], vocabulary * sizeof(float)) == 0);
    a->commit(tokens.subspan(step * 4, 4));
    b->commit(tokens.subspan(step, 1));
    const std::int32_t pair[] = {tokens[39 - step * 2], tokens[38 - step * 2]};
    c->commit(pair);
  }
  CHECK(same_bits(got, logits));
}

TEST_CASE("injected embedding rows equal ids, bit for bit") {
  const Golden want = golden();
  const auto& loaded = tiny();
  const std::size_t hidden = loaded.checkpoint.config().hidden;
  Runner runner(loaded);
  auto by_id = runner.sequence(), injected = runner.sequence();
  const auto logits = runner.feed(*by_id, want.tokens, 512);
  std::vector<float> embeddings(want.tokens.size() * hidden);
  std::vector<Row> rows;
  for (std::size_t i = 0; i < want.tokens.size(); ++i) {
    kernels::select("")->widen_bf16(loaded.weights.embedding.bf16() + static_cast<std::size_t>(want.tokens[i]) * hidden, hidden,
                                    &embeddings[i * hidden]);
    rows.push_back({injected.get(), 0, true});
  }
  StepHooks hooks;
  hooks.inject = embeddings;
  const auto result = runner.step(rows, hooks).value();
  CHECK(same_bits({result.logits.begin(), result.logits.end()}, logits));
}
