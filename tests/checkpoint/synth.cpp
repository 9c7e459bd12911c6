// Synthetic checkpoints: written, opened, loaded and verified; and what verify finds in damaged ones.
#include "model/checkpoint/synth.hpp"

#include <sys/resource.h>

#include <array>
#include <bit>
#include <cmath>
#include <csignal>
#include <set>

#include "model/checkpoint/synth_files.hpp"
#include "model/checkpoint/synth_random.hpp"
#include "model/checkpoint/verify.hpp"
#include "model/checkpoint/weights.hpp"
#include "tests/catch.hpp"
#include "tests/checkpoint/support.hpp"

using namespace k3;
using namespace k3::checkpoint;
using namespace k3::test;

namespace {

SynthOptions small(const fs::path& directory) {
  return {.directory = directory, .layers = 5, .experts = 12, .tiny = true, .vocabulary = 1300, .seed = 3};
}

}  // namespace

TEST_CASE("a synthetic checkpoint opens, loads and verifies clean") {
  TempDir dir;
  auto options = small(dir.path() / "model");
  std::uint64_t done = 0;
  options.progress = [&](std::uint64_t now, std::uint64_t total) {
    CHECK(now >= done);
    CHECK(now <= total);
    done = now;
  };
  const auto written = synthesize(options);
  INFO((written.has_error() ? written.error().describe() : ""));
  REQUIRE(written.has_value());
  const auto checkpoint = Checkpoint::open(options.directory);
  INFO((checkpoint.has_error() ? checkpoint.error().describe() : ""));
  REQUIRE(checkpoint.has_value());
  CHECK(checkpoint->files().size() == 6);
  CHECK(checkpoint->config().vocabulary == 1300);
  CHECK_FALSE(checkpoint->config().is_kda[3]);
  CHECK_FALSE(checkpoint->config().is_kda[4]);
  CHECK(checkpoint->config().is_kda[2]);

  const auto weights = load_weights(*checkpoint, 2, 0, {}, {});
  REQUIRE(weights.has_value());
  CHECK(std::get<KdaWeights>(weights->layers[0].attention).a.size() == 3);
  // Six parts of an expert lie one after the other, and experts in the order of their names: 0, 1, 10, 11, 2.
  const auto& expert = checkpoint->expert(1, 0);
  std::uint64_t end = expert.parts[0].offset;
  for (const auto& part : expert.parts) {
    CHECK(part.offset == end);
    end = part.offset + part.bytes;
  }
  CHECK(checkpoint->expert(1, 1).parts[0].offset == end);
  CHECK(checkpoint->expert(1, 10).parts[0].offset == end + checkpoint->expert_bytes());
  CHECK(checkpoint->expert(1, 2).parts[0].offset == end + 3 * checkpoint->expert_bytes());

  for (const bool full : {false, true}) {
    const auto report = verify(options.directory, full, 2, {});
    CHECK(report.clean());
    CHECK(report.files == 6);
    CHECK((report.bytes_read > 0) == full);
  }
}

TEST_CASE("the same seed writes the same bytes, another seed others") {
  TempDir dir;
  auto a = small(dir.path() / "a"), b = small(dir.path() / "b"), c = small(dir.path() / "c");
  c.seed = 4;
  for (const auto& options : {a, b, c}) REQUIRE(synthesize(options).has_value());
  const std::string shard = "model-00002-of-000006.safetensors";
  CHECK(slurp(a.directory / shard) == slurp(b.directory / shard));
  CHECK(slurp(a.directory / shard) != slurp(c.directory / shard));
}

TEST_CASE("nothing is overwritten and bad options are refused") {
  TempDir dir;
  spill(dir.path() / "precious", "x");
  auto options = small(dir.path());
  const auto refused = synthesize(options);
  REQUIRE_FALSE(refused.has_value());
  CHECK(contains(refused.error().message, "not empty"));
  CHECK(slurp(dir.path() / "precious") == "x");
  CHECK_FALSE(synthesize(small(dir.path() / "precious")).has_value());
  CHECK_FALSE(synthesize(small("/proc/nothing/here")).has_value());
  for (auto change : {+[](SynthOptions& o) { o.layers = 0; }, +[](SynthOptions& o) { o.experts = 0; },
                      +[](SynthOptions& o) { o.experts = 9999; }, +[](SynthOptions& o) { o.vocabulary = 511; }}) {
    auto bad = small(dir.path() / "bad");
    change(bad);
    CHECK_FALSE(synthesize(bad).has_value());
    CHECK_FALSE(fs::exists(bad.directory));
  }
}

TEST_CASE("too small a drive is refused before the first byte") {
  TempDir dir;
  const SynthOptions options{.directory = dir.path() / "model", .layers = 128, .experts = 1024};
  constexpr std::uintmax_t needed_at_least = 2'000'000'000'000;
  if (fs::space(dir.path()).available > needed_at_least) return;  // this drive is not too small
  const auto refused = synthesize(options);
  REQUIRE_FALSE(refused.has_value());
  CHECK(contains(refused.error().message, "free space"));
  CHECK(fs::is_empty(options.directory));
}

TEST_CASE("a write that fails is an error and leaves nothing behind") {
  // A limit on file sizes stands in for a full drive: write() fails in the same place.
  struct FileSizeLimit {
    rlimit old{};
    void (*handler)(int) = nullptr;
    explicit FileSizeLimit(rlim_t bytes) {
      handler = std::signal(SIGXFSZ, SIG_IGN);
      ::getrlimit(RLIMIT_FSIZE, &old);
      rlimit now = old;
      now.rlim_cur = bytes;
      ::setrlimit(RLIMIT_FSIZE, &now);
    }
    ~FileSizeLimit() {
      ::setrlimit(RLIMIT_FSIZE, &old);
      std::signal(SIGXFSZ, handler);
    }
  };
  TempDir dir;
  const auto options = small(dir.path() / "model");
  Result<void> failed;
  {
    const FileSizeLimit limit(100'000);
    failed = synthesize(options);
  }
  REQUIRE_FALSE(failed.has_value());
  CHECK(failed.error().code == ErrorCode::io);
  CHECK(contains(failed.error().file, ".safetensors"));
  CHECK(fs::is_empty(options.directory));
}

TEST_CASE("expert bytes have the released proportions") {
  const auto config = parse_config(synth_config({.directory = {}, .layers = 2, .experts = 2}, 512), "config.json").value();
  const Sampler sampler;
  const auto parts = expected_expert(config);
  std::vector<char> bytes(1 << 20);
  std::array<double, 256> share{};
  const auto sample = [&](const ExpectedTensor& part) {
    Random random(1, part.name);
    sampler.fill(part, config, random, 0, bytes);
    share.fill(0);
    for (const char byte : bytes) share[static_cast<unsigned char>(byte)] += 1.0 / static_cast<double>(bytes.size());
  };
  sample(parts[1]);
  CHECK(share[120] == Approx(0.15).margin(0.01));
  CHECK(share[121] == Approx(0.84).margin(0.01));
  CHECK(share[122] == Approx(0.005).margin(0.002));
  sample(parts[0]);
  std::array<double, 16> codes{};
  for (std::size_t byte = 0; byte < 256; ++byte) {
    codes[byte & 15] += share[byte] / 2;
    codes[byte >> 4] += share[byte] / 2;
  }
  const double expected[8] = {0.058, 0.109, 0.096, 0.076, 0.076, 0.052, 0.025, 0.005};
  for (std::size_t code = 0; code < 8; ++code) {
    CHECK(codes[code] == Approx(expected[code]).margin(0.003));
    CHECK(codes[code + 8] == Approx(expected[code]).margin(0.003));
  }
}

TEST_CASE("weights have the deviation that keeps activations in range") {
  const auto config =
      parse_config(synth_config({.directory = {}, .layers = 2, .experts = 2, .tiny = true}, 512), "config.json").value();
  const Sampler sampler;
  std::vector<char> bytes(2 * 65536);
  ExpectedTensor tensor{.name = "model.layers.0.self_attn.o_proj.weight", .dtype = DType::bf16, .shape = {1024, 64}, .rank = 2};
  Random random(1, tensor.name);
  sampler.fill(tensor, config, random, 0, bytes);
  double sum = 0, squares = 0;
  for (std::size_t i = 0; i < bytes.size(); i += 2) {
    std::uint16_t bits = 0;
    std::memcpy(&bits, bytes.data() + i, 2);
    const double value = std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
    sum += value;
    squares += value * value;
  }
  CHECK(sum / 65536 == Approx(0.0).margin(0.005));
  CHECK(std::sqrt(squares / 65536) == Approx(1.0 / 8).margin(0.005));
}

TEST_CASE("the invented vocabulary has the bytes and unique words") {
  const std::string text = synth_tiktoken(30000);
  std::set<std::string> seen;
  std::size_t lines = 0;
  std::istringstream in(text);
  for (std::string word, rank; in >> word >> rank; ++lines) {
    CHECK(rank == std::to_string(lines));
    seen.insert(word);
  }
  CHECK(lines == 30000 - 256);
  CHECK(seen.size() == lines);
  CHECK(text.starts_with("AA== 0\nAQ== 1\n"));
  CHECK(contains(text, "\nYWE= 256\n"));  // aa
  CHECK(contains(text, "\nYWFh 932\n"));  // aaa: after 256 bytes and 676 pairs
}

TEST_CASE("verify reports what is broken and goes on") {
  TempDir dir;
  const auto options = small(dir.path() / "model");
  REQUIRE(synthesize(options).has_value());
  const auto checkpoint = Checkpoint::open(options.directory).value();
  const auto damage = [&](const Tensor& tensor, std::uint64_t at, const std::string& bytes) {
    const auto path = checkpoint.files()[tensor.file].path;
    std::string all = slurp(path);
    all.replace(tensor.offset + at, bytes.size(), bytes);
    spill(path, all);
  };
  damage(checkpoint.expert(2, 7).parts[3], 5, "\xff");
  damage(checkpoint.expert(2, 7).parts[2], 5, "\xff");                                                  // codes: any byte is good
  damage(*checkpoint.find("lm_head.weight"), 20, std::string("\x80\x7f", 2));                           // infinity
  damage(*checkpoint.find("model.layers.0.self_attn.dt_bias"), 8, std::string("\x01\x00\x80\xff", 4));  // NaN
  CHECK(verify(options.directory, false, 1, {}).clean());
  std::uint64_t calls = 0;
  const auto report = verify(options.directory, true, 3, [&](std::uint64_t, std::uint64_t) { ++calls; });
  REQUIRE(report.findings.size() == 3);
  CHECK(calls > 0);
  CHECK(contains(report.findings[0].message, "model.layers.0.self_attn.dt_bias holds 1 values"));
  CHECK(report.findings[0].offset == static_cast<std::int64_t>(checkpoint.find("model.layers.0.self_attn.dt_bias")->offset + 8));
  CHECK(contains(report.findings[1].message, "model.layers.2.block_sparse_moe.experts.7.w2.weight_scale"));
  CHECK(report.findings[1].offset == static_cast<std::int64_t>(checkpoint.expert(2, 7).parts[3].offset + 5));
  CHECK(contains(report.findings[2].message, "lm_head.weight"));

  fs::remove(checkpoint.files()[1].path);
  const auto missing = verify(options.directory, true, 1, {});
  REQUIRE(missing.findings.size() == 1);
  CHECK(contains(missing.findings[0].message, "missing"));
}

TEST_CASE("the golden model verifies clean") { CHECK(verify(tiny_model, true, 2, {}).clean()); }
