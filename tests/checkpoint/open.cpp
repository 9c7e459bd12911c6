// The golden tiny model opens and says what it holds; damaged copies are refused with a message that names the damage.
#include "model/checkpoint/index.hpp"
#include "tests/catch.hpp"
#include "tests/checkpoint/support.hpp"

using namespace k3;
using namespace k3::checkpoint;
using namespace k3::test;

namespace {

std::string refusal(const fs::path& directory) {
  const auto opened = Checkpoint::open(directory);
  REQUIRE_FALSE(opened.has_value());
  return opened.error().describe();
}

}  // namespace

TEST_CASE("the tiny model opens") {
  const auto opened = Checkpoint::open(tiny_model);
  REQUIRE(opened.has_value());
  const Config& config = opened->config();
  CHECK(config.layers == 13);
  CHECK(config.hidden == 64);
  CHECK(config.experts == 12);
  CHECK(config.kda_width() == 96);
  CHECK(opened->files().size() == 14);
  CHECK_FALSE(config.is_kda[3]);
  CHECK(config.is_kda[0]);
  CHECK_FALSE(config.is_kda[12]);

  const Tensor* head = opened->find("lm_head.weight");
  REQUIRE(head != nullptr);
  CHECK(head->dtype == DType::bf16);
  CHECK(head->rank == 2);
  CHECK(head->shape[0] == 512);
  CHECK(head->bytes == 512 * 64 * 2);
  CHECK(opened->find("language_model.lm_head.weight") == nullptr);
  CHECK(opened->find("nothing") == nullptr);
  // w1, w3: 32 x 16 + 32 x 1; w2 alike: every width is 32.
  CHECK(opened->expert_bytes() == 3 * (32 * 16 + 32));
  for (const auto& part : opened->expert(12, 11).parts) CHECK(part.bytes > 0);
  CHECK(opened->expert(1, 0).parts[1].shape[1] == 1);
}

TEST_CASE("the bundled model opens") {
  const auto opened = Checkpoint::open(fs::path(K3_SOURCE_DIR) / "tools/mini/model");
  REQUIRE(opened.has_value());
  CHECK(opened->config().layers == 8);
}

TEST_CASE("names without the prefix open too") {
  TinyCopy copy;
  for (int i = 1; i <= 14; ++i) {
    std::string header = header_of(copy.shard(i));
    for (auto at = header.find("language_model."); at != std::string::npos; at = header.find("language_model.", at))
      header.erase(at, 15);
    set_header(copy.shard(i), header);
  }
  std::string index = slurp(copy.index());
  for (auto at = index.find("language_model."); at != std::string::npos; at = index.find("language_model.", at))
    index.erase(at, 15);
  spill(copy.index(), index);
  const auto opened = Checkpoint::open(copy.path());
  REQUIRE(opened.has_value());
  CHECK(opened->find("lm_head.weight") != nullptr);
}

TEST_CASE("vision shards are neither opened nor needed") {
  TinyCopy copy;
  edit(copy.index(), "\"weight_map\": {",
       "\"weight_map\": {\"vision_tower.blocks.0.wqkv.weight\": \"absent-1.safetensors\","
       "\"mm_projector.proj.0.weight\": \"absent-2.safetensors\",");
  const auto opened = Checkpoint::open(copy.path());
  REQUIRE(opened.has_value());
  CHECK(opened->files().size() == 14);
}

TEST_CASE("all missing and short shards are listed in one message") {
  TinyCopy copy;
  fs::remove(copy.shard(2));
  fs::remove(copy.shard(9));
  fs::resize_file(copy.shard(5), fs::file_size(copy.shard(5)) - 1);
  fs::resize_file(copy.shard(6), 5);
  fs::resize_file(copy.shard(7), 20);
  const auto message = refusal(copy.path());
  for (const int number : {2, 5, 6, 7, 9}) CHECK(contains(message, shard_name(number)));
  CHECK_FALSE(contains(message, shard_name(3)));
  CHECK(contains(message, "5 of 14 shards"));
  CHECK(contains(message, "copy or download"));
  CHECK(contains(message, "truncated"));
}

TEST_CASE("a directory without files says what it lacks") {
  TempDir empty;
  CHECK(contains(refusal(empty.path()), "config.json"));
  CHECK(contains(refusal(empty.path() / "absent"), "config.json"));
  fs::copy_file(tiny_model / "config.json", empty.path() / "config.json");
  CHECK(contains(refusal(empty.path()), "download is incomplete"));
}

TEST_CASE("damaged shards are refused") {
  TinyCopy copy;
  const auto shard = copy.shard(2);
  const std::string header = header_of(shard);
  SECTION("garbage header") {
    spill(shard, std::string(4096, 'x'));
    CHECK(contains(refusal(copy.path()), "not a safetensors file"));
  }
  SECTION("bytes at the end") {
    spill(shard, slurp(shard) + "x");
    CHECK(contains(refusal(copy.path()), "bytes follow the last tensor"));
  }
  SECTION("a tensor the index promises is gone") {
    std::string renamed = header;
    replace(renamed, "input_layernorm", "input_layerform");
    set_header(shard, renamed);
    const auto message = refusal(copy.path());
    CHECK(contains(message, "model.layers.1.input_layernorm.weight"));
    CHECK(contains(message, shard_name(2)));
  }
  SECTION("an expert the index promises is gone") {
    std::string renamed = header;
    replace(renamed, "experts.7.w2.weight_scale", "experts.7.w2.weight_scare");
    set_header(shard, renamed);
    CHECK(contains(refusal(copy.path()), "model.layers.1.block_sparse_moe.experts.7.w2.weight_scale"));
  }
  SECTION("another type of the same size") {
    std::string other = header;
    replace(other, "\"BF16\"", "\"F16\"");
    set_header(shard, other);
    CHECK(contains(refusal(copy.path()), "expected BF16"));
  }
  SECTION("another shape of the same size") {
    std::string other = header;
    replace(other, "[32,16]", "[16,32]");
    set_header(shard, other);
    CHECK(contains(refusal(copy.path()), "got U8 [16, 32]"));
  }
  SECTION("a directory in its place") {
    fs::remove(shard);
    fs::create_directory(shard);
    CHECK(contains(refusal(copy.path()), "not a regular file"));
  }
}

TEST_CASE("a config of other widths does not fit the shards") {
  TinyCopy copy;
  edit(copy.config(), "\"intermediate_size\": 96", "\"intermediate_size\": 128");
  const auto message = refusal(copy.path());
  CHECK(contains(message, "model.layers.0.mlp.gate_proj.weight: expected BF16 [128, 64], got BF16 [96, 64]"));
}

TEST_CASE("a config of other counts does not fit the index") {
  TinyCopy copy;
  SECTION("fewer experts") {
    edit(copy.config(), "\"num_experts\": 12", "\"num_experts\": 11");
    CHECK(contains(refusal(copy.path()), "expert 11 of layer 1"));
  }
  SECTION("more experts") {
    edit(copy.config(), "\"num_experts\": 12", "\"num_experts\": 13");
    CHECK(contains(refusal(copy.path()), "does not name all routed experts"));
  }
  SECTION("a layer that is not MLA") {
    edit(copy.config(), "\"first_k_dense_replace\": 1", "\"first_k_dense_replace\": 0");
    CHECK(contains(refusal(copy.path()), "does not name all routed experts"));
  }
}

TEST_CASE("a damaged index is refused") {
  TinyCopy copy;
  SECTION("not JSON") { spill(copy.index(), "{\"weight_map\": {\"a\": \"b\""); }
  SECTION("no map") { spill(copy.index(), "{\"metadata\": {}}"); }
  SECTION("empty map") { spill(copy.index(), "{\"weight_map\": {}}"); }
  SECTION("a number for a shard") { edit(copy.index(), "\"weight_map\": {", "\"weight_map\": {\"x\": 3,"); }
  SECTION("a path for a shard") { edit(copy.index(), "\"weight_map\": {", "\"weight_map\": {\"x\": \"../x.safetensors\","); }
  SECTION("a tensor twice") {
    edit(copy.index(), "\"weight_map\": {", "\"weight_map\": {\"lm_head.weight\": \"model-00001-of-000014.safetensors\",");
  }
  SECTION("empty file") { spill(copy.index(), ""); }
  const auto opened = Checkpoint::open(copy.path());
  REQUIRE_FALSE(opened.has_value());
  CHECK(opened.error().code == ErrorCode::corrupt);
  CHECK(contains(opened.error().file, "index.json"));
}

TEST_CASE("experts in bf16 are another checkpoint") {
  TinyCopy copy;
  std::string index = slurp(copy.index());
  for (auto at = index.find(".weight_packed"); at != std::string::npos; at = index.find(".weight_packed", at))
    index.erase(at + 7, 7);
  spill(copy.index(), index);
  const auto opened = Checkpoint::open(copy.path());
  REQUIRE_FALSE(opened.has_value());
  CHECK(opened.error().code == ErrorCode::unsupported);
  CHECK(contains(opened.error().message, "MXFP4"));
}

TEST_CASE("one file without an index opens") {
  // The tiny model's shards joined: their headers' offsets moved by the data before them.
  TinyCopy copy;
  std::string header = "{", data;
  for (int i = 1; i <= 14; ++i) {
    const auto parsed = read_header(copy.shard(i));
    REQUIRE(parsed.has_value());
    const std::string all = slurp(copy.shard(i));
    for (const auto& [name, tensor] : parsed->tensors) {
      const auto type = describe_type(tensor.dtype, tensor.shape, tensor.rank);
      const auto space = type.find(' ');
      header += (header.size() > 1 ? ",\"" : "\"") + name + "\":{\"dtype\":\"" + type.substr(0, space) +
                "\",\"shape\":" + type.substr(space + 1) + ",\"data_offsets\":[" + std::to_string(data.size()) + "," +
                std::to_string(data.size() + tensor.bytes) + "]}";
      data += all.substr(tensor.offset, tensor.bytes);
    }
    fs::remove(copy.shard(i));
  }
  header += "}";
  fs::remove(copy.index());
  const std::uint64_t length = header.size();
  spill(copy.path() / "model.safetensors", std::string(reinterpret_cast<const char*>(&length), 8) + header + data);
  const auto opened = Checkpoint::open(copy.path());
  REQUIRE(opened.has_value());
  CHECK(opened->files().size() == 1);
}

TEST_CASE("an index of the released size loads") {
  // 92 layers x 896 experts x 6 parts, and enough others to make 497,220.
  std::string json = "{\"metadata\":{\"total_size\":1560860324864},\"weight_map\":{";
  for (int layer = 1; layer < 93; ++layer) {
    const std::string shard = "\":\"model-" + std::to_string(layer) + ".safetensors\",";
    for (int expert = 0; expert < 896; ++expert) {
      for (const char* part : {"w1", "w2", "w3"}) {
        const std::string name = "\"language_model.model.layers." + std::to_string(layer) + ".block_sparse_moe.experts." +
                                 std::to_string(expert) + "." + part;
        json += name + ".weight_packed" + shard + name + ".weight_scale" + shard;
      }
    }
  }
  for (int i = 0; i < 497220 - 92 * 896 * 6; ++i)
    json += "\"language_model.model.other." + std::to_string(i) + "\":\"globals.safetensors\",";
  json.back() = '}';
  json += "}";
  const auto index = parse_index(json, "index");
  REQUIRE(index.has_value());
  CHECK(index->experts.size() == 92 * 896 * 6);
  CHECK(index->others.size() == 497220 - 92 * 896 * 6);
  CHECK(index->shards.size() == 93);
  CHECK(index->experts.front().part.layer == 1);
  CHECK(index->experts.back().part == ExpertPart{92, 895, 5});
  CHECK(index->shards[index->experts.back().shard] == "model-92.safetensors");
}

TEST_CASE("expert names are recognised in one spelling only") {
  const std::string head = "model.layers.3.block_sparse_moe.experts.";
  CHECK(parse_expert_name(head + "10.w2.weight_scale") == ExpertPart{3, 10, 3});
  CHECK(parse_expert_name(head + "0.w1.weight_packed") == ExpertPart{3, 0, 0});
  for (const char* bad : {"01.w1.weight_packed", "-1.w1.weight_packed", "1.w4.weight_packed", "1.w1.weight", "1.w1.weight_packedx",
                          ".w1.weight_packed", "99999999999.w1.weight_packed", "1.w"}) {
    CHECK_FALSE(parse_expert_name(head + bad).has_value());
  }
}
