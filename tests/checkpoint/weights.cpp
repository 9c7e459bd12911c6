// The trunk's values against bytes read here without the loader.
#include "model/checkpoint/weights.hpp"

#include <bit>
#include <cmath>

#include "tests/catch.hpp"
#include "tests/checkpoint/support.hpp"

using namespace k3;
using namespace k3::checkpoint;
using namespace k3::test;

namespace {

float widen(std::uint16_t bits) { return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16); }

std::string raw(const Checkpoint& checkpoint, const std::string& name) {
  const Tensor* tensor = checkpoint.find(name);
  REQUIRE(tensor != nullptr);
  return slurp(checkpoint.files()[tensor->file].path).substr(tensor->offset, tensor->bytes);
}

std::vector<float> values(const Checkpoint& checkpoint, const std::string& name) {
  const std::string bytes = raw(checkpoint, name);
  std::vector<float> out;
  if (checkpoint.find(name)->dtype == DType::f32) {
    out.resize(bytes.size() / 4);
    std::memcpy(out.data(), bytes.data(), bytes.size());
    return out;
  }
  for (std::size_t i = 0; i < bytes.size(); i += 2) {
    std::uint16_t bits = 0;
    std::memcpy(&bits, bytes.data() + i, 2);
    out.push_back(widen(bits));
  }
  return out;
}

bool same(const Matrix& matrix, const std::string& bytes) {
  return matrix.rows * matrix.columns * 2 == bytes.size() && std::memcmp(matrix.data, bytes.data(), bytes.size()) == 0;
}

Result<Weights> load(const fs::path& directory, std::size_t layers = 0) {
  auto checkpoint = Checkpoint::open(directory);
  REQUIRE(checkpoint.has_value());
  return load_weights(*checkpoint, 3, layers, {}, {});
}

}  // namespace

TEST_CASE("the trunk holds the bytes of the shards") {
  const auto checkpoint = Checkpoint::open(tiny_model).value();
  std::uint64_t last_done = 0, last_total = 0;
  const auto loaded = load_weights(checkpoint, 2, 0, {}, [&](std::uint64_t done, std::uint64_t total) {
    CHECK(done >= last_done);
    last_done = done;
    last_total = total;
  });
  REQUIRE(loaded.has_value());
  CHECK(last_done == last_total);
  CHECK(last_total > 0);
  const Weights& w = *loaded;
  REQUIRE(w.layers.size() == 13);
  CHECK(w.bytes > 0);
  CHECK(same(w.embedding, raw(checkpoint, "model.embed_tokens.weight")));
  CHECK(same(w.head, raw(checkpoint, "lm_head.weight")));
  CHECK(w.head.rows == 512);
  CHECK(w.final_norm == values(checkpoint, "model.norm.weight"));

  REQUIRE(std::holds_alternative<KdaWeights>(w.layers[4].attention));
  const auto& kda = std::get<KdaWeights>(w.layers[4].attention);
  const std::string kda_prefix = "model.layers.4.self_attn.";
  CHECK(same(kda.q, raw(checkpoint, kda_prefix + "q_proj.weight")));
  CHECK(same(kda.o, raw(checkpoint, kda_prefix + "o_proj.weight")));
  CHECK(same(kda.f_b, raw(checkpoint, kda_prefix + "f_b_proj.weight")));
  CHECK(kda.k_conv == values(checkpoint, kda_prefix + "k_conv1d.weight"));
  CHECK(kda.k_conv.size() == 96 * 4);
  CHECK(kda.dt_bias == values(checkpoint, kda_prefix + "dt_bias"));
  const auto a_log = values(checkpoint, kda_prefix + "A_log");
  REQUIRE(a_log.size() == 32);  // padded: three heads
  REQUIRE(kda.a.size() == 3);
  for (std::size_t head = 0; head < 3; ++head) CHECK(kda.a[head] == static_cast<float>(std::exp(static_cast<double>(a_log[head]))));

  REQUIRE(std::holds_alternative<MlaWeights>(w.layers[12].attention));
  const auto& mla = std::get<MlaWeights>(w.layers[12].attention);
  CHECK(same(mla.kv_b, raw(checkpoint, "model.layers.12.self_attn.kv_b_proj.weight")));
  CHECK(mla.kv_norm == values(checkpoint, "model.layers.12.self_attn.kv_a_layernorm.weight"));

  REQUIRE(std::holds_alternative<MlpWeights>(w.layers[0].mlp));
  CHECK(same(std::get<MlpWeights>(w.layers[0].mlp).down, raw(checkpoint, "model.layers.0.mlp.down_proj.weight")));
  REQUIRE(std::holds_alternative<MoeWeights>(w.layers[7].mlp));
  const auto& moe = std::get<MoeWeights>(w.layers[7].mlp);
  CHECK(moe.router_bias == values(checkpoint, "model.layers.7.block_sparse_moe.gate.e_score_correction_bias"));
  CHECK(same(moe.shared.up, raw(checkpoint, "model.layers.7.block_sparse_moe.shared_experts.up_proj.weight")));
  CHECK(moe.up.rows == 64);
  CHECK(moe.up.columns == 32);

  const auto norm = values(checkpoint, "model.layers.5.mlp_res_norm.weight"),
             proj = values(checkpoint, "model.layers.5.mlp_res_proj.weight");
  REQUIRE(w.layers[5].mlp_residual.score.size() == 64);
  for (std::size_t i = 0; i < 64; ++i) CHECK(w.layers[5].mlp_residual.score[i] == norm[i] * proj[i]);
}

TEST_CASE("max_layers loads the first layers and the globals") {
  const auto loaded = load(tiny_model, 2);
  REQUIRE(loaded.has_value());
  CHECK(loaded->layers.size() == 2);
  CHECK(loaded->head.rows == 512);
  CHECK(load(tiny_model, 99)->layers.size() == 13);
}

TEST_CASE("weights outlive the checkpoint they came from and can be moved") {
  Weights moved;
  {
    auto loaded = load(tiny_model);
    REQUIRE(loaded.has_value());
    moved = std::move(*loaded);
  }
  CHECK(widen(moved.embedding.bf16()[0]) == values(Checkpoint::open(tiny_model).value(), "model.embed_tokens.weight")[0]);
}

TEST_CASE("a shard that shrinks after it was opened is an error") {
  TinyCopy copy;
  const auto checkpoint = Checkpoint::open(copy.path());
  REQUIRE(checkpoint.has_value());
  SECTION("within a matrix") { fs::resize_file(copy.shard(14), fs::file_size(copy.shard(14)) - 100); }
  SECTION("to nothing") { fs::resize_file(copy.shard(3), 0); }
  const auto loaded = load_weights(*checkpoint, 2, 0, {}, {});
  REQUIRE_FALSE(loaded.has_value());
  CHECK(contains(loaded.error().describe(), "ends early"));
}

TEST_CASE("a shard that goes after it was opened is an error") {
  TinyCopy copy;
  const auto checkpoint = Checkpoint::open(copy.path());
  REQUIRE(checkpoint.has_value());
  fs::remove(copy.shard(4));
  const auto loaded = load_weights(*checkpoint, 2, 0, {}, {});
  REQUIRE_FALSE(loaded.has_value());
  CHECK(contains(loaded.error().file, shard_name(4)));
}

TEST_CASE("a NaN in a norm is found when it is loaded") {
  TinyCopy copy;
  const auto checkpoint = Checkpoint::open(copy.path()).value();
  const Tensor* norm = checkpoint.find("model.layers.6.input_layernorm.weight");
  REQUIRE(norm != nullptr);
  std::string bytes = slurp(copy.shard(7));
  bytes.replace(norm->offset + 6, 2, std::string("\xc0\x7f", 2));
  spill(copy.shard(7), bytes);
  const auto loaded = load_weights(checkpoint, 2, 0, {}, {});
  REQUIRE_FALSE(loaded.has_value());
  CHECK(contains(loaded.error().message, "model.layers.6.input_layernorm.weight"));
  CHECK(loaded.error().offset == static_cast<std::int64_t>(norm->offset + 6));
}
