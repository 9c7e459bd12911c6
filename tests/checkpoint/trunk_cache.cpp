// A trunk kept without its experts: the same model, from two directories.
#include "model/checkpoint/trunk_cache.hpp"

#include <array>

#include "model/checkpoint/verify.hpp"
#include "model/checkpoint/weights.hpp"
#include "tests/catch.hpp"
#include "tests/checkpoint/matrices.hpp"
#include "tests/checkpoint/repack_support.hpp"

using namespace k3;
using namespace k3::checkpoint;
using namespace k3::test;

namespace {

std::string bytes_of_trunk(const Checkpoint& checkpoint, const TrunkPrecision& precision) {
  const auto weights = load_weights(checkpoint, 2, 0, precision, {});
  return weights ? Matrices(*weights).bytes() : weights.error().describe();
}

Result<Checkpoint> open_cached(const fs::path& model, const fs::path& cache, const TrunkPrecision& precision = all_int8) {
  return open_with_cached_trunk(Checkpoint::open(model).value(), {}, precision, cache, {});
}

std::map<std::string, fs::file_time_type> times(const fs::path& directory) {
  std::map<std::string, fs::file_time_type> times;
  for (const auto& entry : fs::directory_iterator(directory)) times[entry.path().filename().string()] = entry.last_write_time();
  return times;
}

}  // namespace

TEST_CASE("a kept trunk has the weights that rounding at load gives, and the experts stay where they are") {
  TempDir dir;
  const std::array<TrunkPrecision, 3> precisions{all_int8, all_int4, {Precision::int4, Precision::int8, Precision::bf16}};
  const TrunkPrecision& precision = precisions[GENERATE(0U, 1U, 2U)];
  const Checkpoint plain = Checkpoint::open(tiny_model).value();
  const auto kept = open_cached(tiny_model, dir.path() / "cache", precision);
  REQUIRE(kept.has_value());
  CHECK(stored_precision(*kept)->precision == precision);
  CHECK((bytes_of_trunk(*kept, precision) == bytes_of_trunk(plain, precision)));
  const Config& config = plain.config();
  for (std::size_t layer = config.dense_layers; layer < config.layers; ++layer) {
    for (std::size_t expert = 0; expert < config.experts; ++expert) {
      for (std::size_t part = 0; part < 6; ++part) {
        const Tensor &there = kept->expert(layer, expert).parts[part], &own = plain.expert(layer, expert).parts[part];
        REQUIRE(fs::equivalent(kept->files()[there.file].path, plain.files()[own.file].path));
        REQUIRE(there.offset == own.offset);
        REQUIRE(there.bytes == own.bytes);
      }
    }
  }
}

TEST_CASE("a prepared container is a source too, though its shards have the same names") {
  TempDir dir;
  const fs::path eight = dir.path() / "8", four = dir.path() / "4";
  REQUIRE(repack(repack_options(tiny_model, eight)).has_value());
  REQUIRE(repack(repack_options(eight, four, all_int4)).has_value());
  const auto kept = open_cached(eight, dir.path() / "cache", all_int4);
  REQUIRE(kept.has_value());
  CHECK((bytes_of_trunk(*kept, all_int4) == bytes_of_trunk(Checkpoint::open(four).value(), all_int4)));
}

TEST_CASE("what is kept is made once, and finished where it was begun") {
  TempDir dir;
  const fs::path cache = dir.path() / "cache";
  REQUIRE(open_cached(tiny_model, cache).has_value());
  const auto whole = contents(cache);
  std::string shard;
  for (const auto& [name, bytes] : whole) {
    CHECK_FALSE(contains(bytes.substr(0, 4096), ".experts.0."));
    if (name.ends_with(".safetensors")) shard = name;
  }
  const auto before = times(cache);
  REQUIRE(open_cached(tiny_model, cache).has_value());
  const auto after = times(cache);
  for (const auto& [name, time] : before) {
    CAPTURE(name);
    if (name.ends_with(".safetensors") || name.ends_with(".index.json")) CHECK(after.at(name) == time);
  }
  fs::remove(cache / shard);
  fs::remove(cache / "model.safetensors.index.json");
  REQUIRE(open_cached(tiny_model, cache).has_value());
  CHECK((contents(cache) == whole));
}

TEST_CASE("a trunk made of other files is refused, and nothing of it is overwritten") {
  TinyCopy copy;
  TempDir dir;
  const fs::path cache = dir.path() / "cache";
  REQUIRE(open_cached(copy.path(), cache).has_value());
  const auto made = contents(cache);
  const Tensor tensor = *Checkpoint::open(copy.path())->find("model.layers.1.input_layernorm.weight");
  flip(Checkpoint::open(copy.path())->files()[tensor.file].path, tensor.offset);
  const auto again = open_cached(copy.path(), cache);
  REQUIRE(again.has_error());
  CHECK(contains(again.error().describe(), "another source"));
  CHECK((contents(cache) == made));
}

TEST_CASE("a trunk without the checkpoint it was made from says what is missing; with it, every byte can be verified") {
  TempDir dir;
  RepackOptions options = repack_options(tiny_model, dir.path() / "trunk");
  options.contents = Contents::trunk;
  options.compare = true;
  REQUIRE(repack(options).has_value());
  const auto alone = Checkpoint::open(options.destination);
  REQUIRE(alone.has_error());
  CHECK(alone.error().code == ErrorCode::not_found);
  CHECK(contains(alone.error().describe(), "--dirs"));
  const std::vector<fs::path> source{tiny_model};
  CHECK(verify(options.destination, true, 2, {}, source).findings.empty());
  // The directory is a trunk's from now on.
  options.contents = Contents::all;
  CHECK(contains(repack_refusal(options), "another shape"));
}

TEST_CASE("each model and each choice of bits is kept in a folder of its own") {
  TempDir a, b;
  const auto path = [](const fs::path& model, const TrunkPrecision& precision) {
    return trunk_cache_path("/root", model, precision);
  };
  CHECK(path(a.path(), all_int8) == path(a.path() / ".", all_int8));
  CHECK(path(a.path(), all_int8) != path(a.path(), all_int4));
  CHECK(path(a.path(), all_int8) != path(b.path(), all_int8));
  CHECK(path(a.path(), all_int8).parent_path() == "/root");
}
