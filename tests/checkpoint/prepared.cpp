// Reading a prepared container: the same weights as rounding the original at load, bit for bit.
#include <array>
#include <cmath>
#include <limits>

#include "model/checkpoint/quantise.hpp"
#include "model/checkpoint/stored_matrix.hpp"
#include "model/checkpoint/synth.hpp"
#include "model/checkpoint/weights.hpp"
#include "tests/catch.hpp"
#include "tests/checkpoint/matrices.hpp"
#include "tests/checkpoint/repack_support.hpp"

using namespace k3;
using namespace k3::checkpoint;
using namespace k3::test;

namespace {

std::string load(const fs::path& directory, const TrunkPrecision& precision) {
  const auto weights = load_weights(Checkpoint::open(directory).value(), 2, 0, precision, {});
  return weights ? Matrices(*weights).bytes() : weights.error().describe();
}

TrunkPrecision own(const fs::path& directory) { return stored_precision(Checkpoint::open(directory).value()).value().precision; }

// Wide enough for whole groups of 64 columns, and not everywhere.
fs::path random_model(const TempDir& dir) {
  SynthOptions options{.directory = dir.path() / "source", .layers = 5, .experts = 4, .tiny = true};
  REQUIRE(synthesize(options).has_value());
  return options.directory;
}

}  // namespace

TEST_CASE("a container gives the weights that rounding at load gives") {
  TempDir dir;
  const fs::path source = GENERATE(true, false) ? tiny_model : random_model(dir);
  const std::array<TrunkPrecision, 4> precisions{
      all_int8, all_int4, TrunkPrecision{Precision::int4, Precision::int8, Precision::bf16}, TrunkPrecision{}};
  const TrunkPrecision& precision = precisions[GENERATE(0U, 1U, 2U, 3U)];
  const fs::path out = dir.path() / "out";
  REQUIRE(repack(repack_options(source, out, precision)).has_value());
  CHECK(own(out).most == precision.most);
  CHECK(own(out).mla == precision.mla);
  CHECK(own(out).head == precision.head);
  CHECK(stored_precision(Checkpoint::open(out).value()).value().prepared == !precision.exact());
  CHECK((load(out, precision) == load(source, precision)));
}

TEST_CASE("int8 becomes int4 at load as it does in a container made of the container") {
  TempDir dir;
  const fs::path eight = dir.path() / "8", four = dir.path() / "4";
  REQUIRE(repack(repack_options(tiny_model, eight)).has_value());
  REQUIRE(repack(repack_options(eight, four, all_int4)).has_value());
  CHECK((load(eight, all_int4) == load(four, all_int4)));
  CHECK(load(four, all_int4).size() < load(eight, all_int8).size());
  // A container of a container in the same bits is the container, but for what it says it was made from.
  REQUIRE(repack(repack_options(eight, dir.path() / "88")).has_value());
  CHECK((load(dir.path() / "88", all_int8) == load(eight, all_int8)));
}

TEST_CASE("int8 to int4 rounds the values that int8 stands for") {
  std::vector<std::int8_t> q(128);
  for (std::size_t i = 0; i < q.size(); ++i) q[i] = static_cast<std::int8_t>(static_cast<int>(i * 37 % 255) - 127);
  const float q_scale[] = {0.25F, 3.0F};
  std::vector<std::uint8_t> out(64);
  float scale[2];
  REQUIRE(int8_to_int4(q.data(), q_scale, 2, 64, out.data(), scale));
  for (std::size_t i = 0; i < q.size(); ++i) {
    const float s = scale[i / 64], w = static_cast<float>(q[i]) * q_scale[i / 64];
    const int code = static_cast<int>(i % 2 == 0 ? out[i / 2] & 15U : out[i / 2] >> 4U) - 8;
    CHECK(code == std::clamp(static_cast<int>(std::nearbyint(w * (1.0F / s))), -8, 7));
  }
  const float bad[] = {0.25F, std::numeric_limits<float>::infinity()};
  CHECK_FALSE(int8_to_int4(q.data(), bad, 2, 64, out.data(), scale));
}

TEST_CASE("more bits than are stored are an error") {
  TempDir dir;
  REQUIRE(repack(repack_options(tiny_model, dir.path() / "4", all_int4)).has_value());
  CHECK(contains(load(dir.path() / "4", all_int8), "does not come back"));
  const auto stored = stored_precision(Checkpoint::open(dir.path() / "4").value()).value();
  CHECK(check_bits(stored, all_int4).has_value());
  const auto refused = check_bits(stored, {Precision::int4, Precision::int4, Precision::int8});
  REQUIRE_FALSE(refused.has_value());
  CHECK(contains(refused.error().describe(), "--head-bits"));
  CHECK(contains(refused.error().describe(), "at most 4"));
  CHECK(contains(repack_refusal(repack_options(dir.path() / "4", dir.path() / "8")), "does not come back"));
}

TEST_CASE("what is not a matrix with its scales is refused") {
  TempDir dir;
  REQUIRE(repack(repack_options(tiny_model, dir.path())).has_value());
  const auto refusal = [&] {
    const auto opened = Checkpoint::open(dir.path());
    return opened ? std::string() : opened.error().describe();
  };
  CHECK(refusal().empty());
  const std::string head = "\"language_model.lm_head.weight.qs\":{\"dtype\":\"F32\",\"shape\":[512]";
  const fs::path last = dir.path() / shard_name(14);
  std::string header = header_of(last);
  SECTION("scales of another shape") {
    replace(header, head, "\"language_model.lm_head.weight.qs\":{\"dtype\":\"F32\",\"shape\":[2,256]");
    set_header(last, header);
    CHECK(contains(refusal(), "lm_head.weight"));
  }
  SECTION("no scales") {
    edit(dir.path() / "model.safetensors.index.json", "\"language_model.lm_head.weight.qs\": \"" + shard_name(14) + "\",", "");
    CHECK(contains(refusal(), "lm_head.weight"));
  }
  SECTION("scales that the index promises and no shard holds") {
    replace(header, "lm_head.weight.qs", "lm_head.weight.qz");
    set_header(last, header);
    CHECK(contains(refusal(), "lm_head.weight"));
  }
}

TEST_CASE("matrices of one kind in different bits are refused") {
  TempDir dir;
  const fs::path source = random_model(dir), eight = dir.path() / "8", four = dir.path() / "4";
  REQUIRE(repack(repack_options(source, eight)).has_value());
  REQUIRE(repack(repack_options(source, four, all_int4)).has_value());
  const std::string name = "model-00002-of-000006.safetensors";
  fs::copy_file(four / name, eight / name, fs::copy_options::overwrite_existing);
  const auto stored = stored_precision(Checkpoint::open(eight).value());
  REQUIRE_FALSE(stored.has_value());
  CHECK(contains(stored.error().describe(), "different bits"));
  // So does repack itself, when the shard comes from elsewhere.
  CHECK(contains(repack_refusal(repack_options(source, eight)), "other bits"));
}
