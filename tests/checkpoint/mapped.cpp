// A trunk that is mapped instead of read: the same weights, and a refusal that names what cannot be used where it lies.
#include "model/checkpoint/mapped_trunk.hpp"
#include "tests/catch.hpp"
#include "tests/checkpoint/matrices.hpp"
#include "tests/checkpoint/repack_support.hpp"

using namespace k3;
using namespace k3::checkpoint;
using namespace k3::test;

namespace {

constexpr Residency mapped{.mapped = true};

std::string refusal(const Checkpoint& checkpoint, const TrunkPrecision& precision) {
  const auto checked = check_mappable(checkpoint, 0, precision);
  const auto loaded = load_weights(checkpoint, 1, 0, precision, {}, mapped);
  REQUIRE(loaded.has_error());
  CHECK((checked.has_error() && checked.error().describe() == loaded.error().describe()));
  return loaded.error().describe();
}

// So many more bytes before the data of every shard, as another program might have padded its headers.
void shift(const fs::path& directory, std::size_t bytes) {
  for (const auto& entry : fs::directory_iterator(directory)) {
    if (entry.path().extension() == ".safetensors") set_header(entry.path(), header_of(entry.path()) + std::string(bytes, ' '));
  }
}

}  // namespace

TEST_CASE("a mapped trunk is the one that is read") {
  TempDir dir;
  const TrunkPrecision precision = GENERATE(TrunkPrecision{}, all_int8, all_int4);
  REQUIRE(repack(repack_options(tiny_model, dir.path(), precision)).has_value());
  const auto checkpoint = Checkpoint::open(dir.path()).value();
  const auto read = load_weights(checkpoint, 2, 0, precision, {}).value();
  auto weights = load_weights(checkpoint, 2, 0, precision, {}, mapped);
  REQUIRE(weights.has_value());
  const Weights moved = std::move(*weights);
  CHECK(Matrices(moved).bytes() == Matrices(read).bytes());
  CHECK(moved.layers[1].input_norm == read.layers[1].input_norm);
  CHECK(moved.bytes == read.bytes);
  CHECK(moved.streamed.empty());
  // Where they lie in the file, and not in memory of our own.
  const auto from_head = static_cast<const char*>(moved.embedding.data) - static_cast<const char*>(moved.head.data);
  CHECK(from_head == static_cast<std::ptrdiff_t>(checkpoint.find("model.embed_tokens.weight")->offset) -
                         static_cast<std::ptrdiff_t>(checkpoint.find("lm_head.weight")->offset));
}

TEST_CASE("the released checkpoint can be mapped as it is, not in fewer bits") {
  const auto checkpoint = Checkpoint::open(tiny_model).value();
  CHECK(Matrices(load_weights(checkpoint, 1, 0, {}, {}, mapped).value()).bytes() ==
        Matrices(load_weights(checkpoint, 1, 0, {}, {}).value()).bytes());
  const auto message = refusal(checkpoint, all_int8);
  CHECK(contains(message, "rounded"));
  CHECK(contains(message, ".weight cannot be mapped"));
  CHECK(contains(message, "k3 repack"));
  CHECK(contains(message, "expected 16 bits, as stored, got 8"));
  const auto head = refusal(checkpoint, {Precision::bf16, Precision::bf16, Precision::int8});
  CHECK(contains(head, "lm_head.weight"));
  CHECK(check_mappable(checkpoint, 1, {Precision::bf16, Precision::int8, Precision::bf16}).has_value());  // layer 0 is no MLA
}

TEST_CASE("numbers that do not begin at multiples of their size are refused by name") {
  TempDir dir;
  REQUIRE(repack(repack_options(tiny_model, dir.path())).has_value());
  SECTION("bf16 at odd bytes") {
    shift(dir.path(), 1);
    const auto message = refusal(Checkpoint::open(dir.path()).value(), all_int8);
    CHECK(contains(message, "expected a multiple of"));
  }
  SECTION("float32 scales at even ones") {
    shift(dir.path(), 2);
    const auto message = refusal(Checkpoint::open(dir.path()).value(), all_int8);
    CHECK(contains(message, ".qs cannot be mapped"));
    CHECK(contains(message, "expected a multiple of 4"));
  }
  SECTION("what is odd for rounded numbers is fine for bytes") {
    shift(dir.path(), 4);
    CHECK(check_mappable(Checkpoint::open(dir.path()).value(), 0, all_int8).has_value());
  }
}

TEST_CASE("a file that is gone is an error that names the tensor, unless there is a copy") {
  TinyCopy model;
  TempDir drive;
  for (int number = 1; number <= 14; ++number) fs::copy_file(model.shard(number), drive.path() / shard_name(number));
  const std::vector<fs::path> others{drive.path()};
  const auto alone = Checkpoint::open(model.path()).value(), twice = Checkpoint::open(model.path(), others).value();
  const auto expected = Matrices(load_weights(alone, 1, 0, {}, {}).value()).bytes();
  const Tensor tensor = *alone.find("lm_head.weight");
  MappedTrunk gone(alone), copied(twice);
  fs::remove(alone.files()[tensor.file].path);
  const auto error = gone.place(tensor, "lm_head.weight");
  REQUIRE(error.has_error());
  CHECK(contains(error.error().describe(), "lm_head.weight cannot be mapped"));
  CHECK(copied.place(tensor, "lm_head.weight").has_value());
  CHECK(Matrices(load_weights(twice, 1, 0, {}, {}, mapped).value()).bytes() == expected);
}
