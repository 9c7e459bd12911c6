// Writing a prepared container: its layout, what is kept after an interruption, what is refused.
#include "model/checkpoint/repack.hpp"

#include <sys/resource.h>

#include <csignal>

#include "model/checkpoint/durable_file.hpp"
#include "model/checkpoint/tensor_list.hpp"
#include "model/checkpoint/verify.hpp"
#include "tests/catch.hpp"
#include "tests/checkpoint/repack_support.hpp"

using namespace k3;
using namespace k3::checkpoint;
using namespace k3::test;

TEST_CASE("experts come first, by id, on a page, each in one piece and byte for byte as released") {
  TempDir dir;
  REQUIRE(repack(repack_options(tiny_model, dir.path())).has_value());
  const auto source = Checkpoint::open(tiny_model).value(), container = Checkpoint::open(dir.path()).value();
  CHECK(container.files().size() == 14);
  const auto bytes = [](const Checkpoint& of, const Tensor& t) { return slurp(of.files()[t.file].path).substr(t.offset, t.bytes); };
  for (const std::size_t layer : {1U, 7U, 12U}) {
    std::uint64_t end = container.expert(layer, 0).parts[0].offset;
    CHECK(end % 4096 == 0);
    CHECK(end == 8 + header_of(dir.path() / shard_name(static_cast<int>(layer) + 1)).size());
    for (std::size_t expert = 0; expert < 12; ++expert) {
      for (std::size_t part = 0; part < 6; ++part) {
        const Tensor& tensor = container.expert(layer, expert).parts[part];
        CHECK(tensor.offset == end);
        end += tensor.bytes;
        CHECK((bytes(container, tensor) == bytes(source, source.expert(layer, expert).parts[part])));
      }
    }
  }
  for (const char* name :
       {"model.embed_tokens.weight", "model.layers.4.self_attn.f_a_proj.weight", "model.layers.4.self_attn.A_log",
        "model.layers.2.block_sparse_moe.gate.weight", "model.layers.5.mlp_res_proj.weight"}) {
    CHECK((bytes(container, *container.find(name)) == bytes(source, *source.find(name))));
  }
  CHECK(
      contains(header_of(dir.path() / shard_name(14)), "\"language_model.lm_head.weight.qs\":{\"dtype\":\"F32\",\"shape\":[512]"));
  for (const char* name : {"config.json", "tiktoken.model", "tokenizer_config.json"})
    CHECK(slurp(dir.path() / name) == slurp(tiny_model / name));
}

TEST_CASE("what is finished is kept, what is missing or damaged is made again, and the bytes are the same") {
  TempDir dir;
  REQUIRE(repack(repack_options(tiny_model, dir.path() / "whole")).has_value());
  const auto whole = contents(dir.path() / "whole");
  const fs::path other = dir.path() / "other";
  auto options = repack_options(tiny_model, other);
  options.first_shard = 5;
  options.last_shard = 9;
  auto made = repack(options);
  REQUIRE(made.has_value());
  CHECK(made->written == 5);
  CHECK(made->missing == 9);
  CHECK_FALSE(fs::exists(other / "model.safetensors.index.json"));

  options.first_shard = 1;
  options.last_shard = 0;
  spill(DurableFile::partial(other / shard_name(2)), "what a kill left");
  fs::resize_file(other / shard_name(6), fs::file_size(other / shard_name(6)) - 1);
  options.compare = true;
  made = repack(options);
  REQUIRE(made.has_value());
  CHECK(made->written == 10);
  CHECK(made->found == 4);
  CHECK(made->missing == 0);
  CHECK((contents(other) == whole));

  made = repack(options);
  CHECK(made->written == 0);
  CHECK((contents(other) == whole));
}

TEST_CASE("a byte that changes is found: by comparing with the source, and by checksum without it") {
  TempDir dir;
  auto options = repack_options(tiny_model, dir.path());
  REQUIRE(repack(options).has_value());
  CHECK(verify(dir.path(), true, 2, {}).clean());
  CHECK(verify(dir.path(), true, 2, {}).compared == verify(dir.path(), false, 2, {}).tensors);
  const auto container = Checkpoint::open(dir.path()).value();
  const Tensor& tensor = container.expert(3, 7).parts[2];
  flip(dir.path() / shard_name(4), tensor.offset + 5);
  const std::string name = "model.layers.3.block_sparse_moe.experts.7.w2.weight_packed";
  const auto report = verify(dir.path(), true, 2, {});
  REQUIRE(report.findings.size() == 1);
  CHECK(contains(report.findings[0].message, name));
  CHECK(contains(report.findings[0].file, shard_name(4)));
  options.compare = true;
  const std::string refusal = repack_refusal(options);
  CHECK(contains(refusal, name));
  CHECK(contains(refusal, shard_name(4)));
  CHECK(contains(refusal, "at byte " + std::to_string(tensor.offset + 5)));
}

TEST_CASE("a shard without checksums among others is a finding") {
  TempDir dir;
  REQUIRE(repack(repack_options(tiny_model, dir.path())).has_value());
  edit(dir.path() / shard_name(2), "k3.checksums", "k3.checksumz");
  const auto report = verify(dir.path(), true, 1, {});
  REQUIRE(report.findings.size() == 1);
  CHECK(contains(report.findings[0].file, shard_name(2)));
}

TEST_CASE("a tensor in two shards ends the run with both named") {
  TinyCopy copy;
  TempDir dir;
  const std::string name = "model.layers.4.self_attn.dt_bias";
  // Under its name without the prefix it is the same tensor.
  append_tensor(copy.shard(6), GENERATE("language_model.", "") + name, std::string(96 * 4, 'x'));
  // The index tells which one is meant, so the model loads; a container that keeps one of them would hide the question.
  CHECK(Checkpoint::open(copy.path()).has_value());
  const std::string refusal = repack_refusal(repack_options(copy.path(), dir.path() / "out"));
  CHECK(contains(refusal, name));
  CHECK(contains(refusal, shard_name(5)));
  CHECK(contains(refusal, shard_name(6)));
  CHECK_FALSE(fs::exists(dir.path() / "out"));
}

TEST_CASE("a tensor that the model does not ask for is taken along, vision is not") {
  TinyCopy copy;
  TempDir dir;
  append_tensor(copy.shard(6), "language_model.model.layers.5.extra", "12345678");
  append_tensor(copy.shard(7), "vision_tower.patch", "12345678");
  edit(copy.index(), "\"weight_map\": {",
       "\"weight_map\": {\"language_model.model.layers.5.extra\": \"" + shard_name(6) + "\", \"vision_tower.patch\": \"" +
           shard_name(7) + "\",");
  REQUIRE(repack(repack_options(copy.path(), dir.path())).has_value());
  const std::string index = slurp(dir.path() / "model.safetensors.index.json");
  CHECK(contains(index, "\"language_model.model.layers.5.extra\": \"" + shard_name(6)));
  CHECK_FALSE(contains(index, "vision"));
  CHECK(slurp(dir.path() / shard_name(6)).ends_with("12345678"));
}

TEST_CASE("bad places are refused before anything is written") {
  TinyCopy copy;
  TempDir dir;
  CHECK(contains(repack_refusal(repack_options(copy.path(), copy.path())), "over its source"));
  CHECK(contains(repack_refusal(repack_options(copy.path(), copy.path() / "a" / "b")), "into its source"));
  fs::create_directory_symlink(copy.path(), dir.path() / "link");
  CHECK(contains(repack_refusal(repack_options(copy.path(), dir.path() / "link")), "over its source"));
  CHECK_FALSE(fs::exists(copy.path() / "k3_container.json"));
  fs::remove(dir.path() / "link");
  spill(dir.path() / "letter.txt", "dear");
  CHECK(contains(repack_refusal(repack_options(copy.path(), dir.path())), "letter.txt"));
  CHECK(contains(repack_refusal(repack_options(copy.path(), dir.path() / "letter.txt")), "cannot make the directory"));
  auto options = repack_options(copy.path(), dir.path() / "out");
  options.last_shard = 15;
  CHECK(contains(repack_refusal(options), "1 to 14"));
  CHECK_FALSE(fs::exists(dir.path() / "out"));
  CHECK(contains(repack_refusal(repack_options(dir.path(), dir.path() / "out")), "config.json"));
}

TEST_CASE("a container of other bits or of another source is not written over") {
  TempDir dir;
  REQUIRE(repack(repack_options(tiny_model, dir.path())).has_value());
  const auto before = contents(dir.path());
  CHECK(contains(repack_refusal(repack_options(tiny_model, dir.path(), all_int4)), "other bits"));
  TinyCopy copy;
  flip(copy.shard(14), Checkpoint::open(copy.path()).value().find("lm_head.weight")->offset);
  CHECK(contains(repack_refusal(repack_options(copy.path(), dir.path())), "another source"));
  CHECK((contents(dir.path()) == before));
}

TEST_CASE("weights that are not finite are not rounded into nonsense") {
  TinyCopy copy;
  TempDir dir;
  const Tensor tensor = *Checkpoint::open(copy.path()).value().find("lm_head.weight");
  std::string bytes = slurp(copy.shard(14));
  bytes.replace(tensor.offset + 200, 2, std::string("\x80\x7f", 2));
  spill(copy.shard(14), bytes);
  const std::string refusal = repack_refusal(repack_options(copy.path(), dir.path()));
  CHECK(contains(refusal, "not a finite number"));
  CHECK(contains(refusal, shard_name(14)));
}

TEST_CASE("a drive that is full keeps what is finished, and the next run goes on") {
  TempDir dir;
  REQUIRE(repack(repack_options(tiny_model, dir.path() / "whole")).has_value());
  const fs::path out = dir.path() / "out";
  // The last shard, with embedding and head, is the largest: a limit on the size of files stops it and none before.
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  rlimit before{};
  REQUIRE(::getrlimit(RLIMIT_FSIZE, &before) == 0);
  const auto largest = fs::file_size(dir.path() / "whole" / shard_name(11));
  rlimit limit{largest - 1, before.rlim_max};
  REQUIRE(::setrlimit(RLIMIT_FSIZE, &limit) == 0);
  const std::string refusal = repack_refusal(repack_options(tiny_model, out));
  REQUIRE(::setrlimit(RLIMIT_FSIZE, &before) == 0);
  std::signal(SIGXFSZ, handler);
  CHECK(contains(refusal, "cannot write"));
  CHECK(contains(refusal, "finished shards are kept"));
  const auto kept = contents(out);
  CHECK(kept.size() > 4);
  for (const auto& [name, bytes] : kept) CHECK_FALSE(name.ends_with(".partial"));
  const auto made = repack(repack_options(tiny_model, out));
  REQUIRE(made.has_value());
  CHECK(made->found > 0);
  CHECK(made->written > 0);
  CHECK((contents(out) == contents(dir.path() / "whole")));
}
