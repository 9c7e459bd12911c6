#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "model/text/bpe.hpp"
#include "model/text/tokenizer.hpp"
#include "model/text/tokenizer_files.hpp"
#include "tests/catch.hpp"

using namespace k3::text;
namespace fs = std::filesystem;

namespace {

const fs::path kTiny = K3_TEST_DATA "/tiny/model";

std::string slurp(const fs::path& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

// A folder of its own, gone at the end.
struct Folder {
  fs::path path = fs::temp_directory_path() / ("k3-tokenizer-" + std::to_string(::getpid()));
  Folder() { fs::create_directories(path); }
  ~Folder() {
    std::error_code ignored;
    fs::remove_all(path, ignored);
  }
  void write(const std::string& name, const std::string& text) const { std::ofstream(path / name, std::ios::binary) << text; }
};

std::string error_of(const std::string& ranks) {
  const auto result = parse_vocabulary(ranks, "some/tiktoken.model");
  if (result) return "";
  CHECK(result.error().file == "some/tiktoken.model");
  return result.error().describe();
}

std::string config_error(const std::string& config) {
  const auto reserved = ReservedTokens::parse(config, "some/tokenizer_config.json", 256);
  if (!reserved) {
    CHECK(reserved.error().file == "some/tokenizer_config.json");
    return reserved.error().describe();
  }
  const auto control = find_control_tokens(*reserved, "some/tokenizer_config.json");
  return control ? "" : control.error().describe();
}

using Catch::Matchers::Contains;

}  // namespace

TEST_CASE("tokenizer files: a rank file with any defect is refused by line") {
  const std::string good = slurp(kTiny / "tiktoken.model");
  REQUIRE(error_of(good).empty());
  std::string windows = good;
  for (std::size_t i = 0; (i = windows.find('\n', i)) != std::string::npos; i += 2) windows.replace(i, 1, "\r\n");
  CHECK(error_of(windows).empty());
  CHECK(error_of(good.substr(0, good.size() - 1)).empty());  // no line end after the last
  CHECK(error_of("\n" + good + "\n").empty());

  CHECK_THAT(error_of(good + "YWI 256\n"), Contains("line 257") && Contains("not base64"));
  CHECK_THAT(error_of(good + "Y=Ji 256\n"), Contains("not base64"));
  CHECK_THAT(error_of(good + "YW*i 256\n"), Contains("not base64"));
  CHECK_THAT(error_of(good + "YWJ= 256\n"), Contains("not base64"));  // bits left over
  CHECK_THAT(error_of(good + "==== 256\n"), Contains("not base64"));
  CHECK_THAT(error_of(good + " 256\n"), Contains("not base64"));
  CHECK_THAT(error_of(good + "YWI=\n"), Contains("line 257") && Contains("no rank"));
  CHECK_THAT(error_of(good + "YWI= x\n"), Contains("bad rank"));
  CHECK_THAT(error_of(good + "YWI= \n"), Contains("bad rank"));
  CHECK_THAT(error_of(good + "YWI= -1\n"), Contains("bad rank"));
  CHECK_THAT(error_of(good + "YWI= 256 7\n"), Contains("bad rank"));
  CHECK_THAT(error_of(good + "YWI= 99999999999\n"), Contains("bad rank"));
  CHECK_THAT(error_of(good + "YWI= 2000000\n"), Contains("bad rank"));
  CHECK_THAT(error_of(good + "YWI= 255\n"), Contains("line 257") && Contains("rank 255") && Contains("line 256"));
  CHECK_THAT(error_of(good + "YWI= 257\n"), Contains("rank 256 is missing"));
  CHECK_THAT(error_of(good + "YWI= 256\nYWI= 257\n"), Contains("line 258") && Contains("same bytes") && Contains("line 257"));
  CHECK_THAT(error_of(good.substr(good.find('\n') + 1)), Contains("rank 0 is missing"));
  CHECK_THAT(error_of(good.substr(0, good.rfind('\n', good.size() - 2) + 1)), Contains("single byte"));
  CHECK_THAT(error_of(""), Contains("single byte"));
  std::string long_token;
  for (int i = 0; i < 342; ++i) long_token += "YWJj";
  CHECK_THAT(error_of(good + long_token + " 256\n"), Contains("token too long") && Contains("1024"));
  CHECK(parse_vocabulary(good + "YWI 256\n", "f").error().offset == static_cast<std::int64_t>(good.size()));
}

TEST_CASE("tokenizer files: ranks may come in any order") {
  const std::string good = slurp(kTiny / "tiktoken.model");
  const std::size_t second = good.find('\n') + 1;
  const auto vocabulary = parse_vocabulary(good.substr(second) + good.substr(0, second), "f");
  REQUIRE(vocabulary.has_value());
  CHECK(vocabulary->size() == 256);
  CHECK(vocabulary->bytes(0) == parse_vocabulary(good, "f")->bytes(0));
}

TEST_CASE("tokenizer files: reserved names") {
  const std::string control = R"("257":{"content":"[EOS]"},"258":{"content":"<|end_of_msg|>"},"259":{"content":"<|open|>"},)"
                              R"("260":{"content":"<|close|>"},"261":{"content":"<|sep|>"})";
  const auto with = [&](const std::string& more) { return "{\"added_tokens_decoder\":{" + control + more + "}}"; };
  REQUIRE(config_error(with("")).empty());
  const ReservedTokens reserved = ReservedTokens::parse(with(""), "f", 256).value();
  CHECK(reserved.names()[0] == "<|reserved_token_256|>");
  CHECK(reserved.find("<|reserved_token_511|>") == 511);
  CHECK(reserved.find("[EOS]") == 257);

  CHECK_THAT(config_error("{"), Contains("some/tokenizer_config.json"));
  CHECK_THAT(config_error("{}"), Contains("added_tokens_decoder"));
  CHECK_THAT(config_error(R"({"added_tokens_decoder":[]})"), Contains("not an object"));
  CHECK_THAT(config_error(with(R"(,"512":{"content":"x"})")), Contains("512") && Contains("256 to 511"));
  CHECK_THAT(config_error(with(R"(,"255":{"content":"x"})")), Contains("255"));
  CHECK_THAT(config_error(with(R"(,"abc":{"content":"x"})")), Contains("abc"));
  CHECK_THAT(config_error(with(R"(,"300":{"content":7})")), Contains("300") && Contains("content"));
  CHECK_THAT(config_error(with(R"(,"300":{"content":""})")), Contains("300"));
  CHECK_THAT(config_error(with(R"(,"300":{"content":")" + std::string(257, 'x') + "\"}")), Contains("257 bytes"));
  CHECK_THAT(config_error(with(R"(,"300":{"content":"[EOS]"})")), Contains("[EOS]") && Contains("257") && Contains("300"));
  CHECK_THAT(config_error(with(R"(,"300":{"content":"<|reserved_token_301|>"})")), Contains("301"));
  CHECK_THAT(config_error(with(R"(,"300":{"content":"a"},"300":{"content":"b"})")), Contains("300") && Contains("twice"));
  for (const std::string name : {"[EOS]", "<|end_of_msg|>", "<|open|>", "<|close|>", "<|sep|>"}) {
    std::string config = with("");
    config.replace(config.find(name), name.size(), "<|im_user|>");
    CHECK_THAT(config_error(config), Contains(name));
  }
}

TEST_CASE("tokenizer files: the longest of the names that begin leftmost is taken") {
  const ReservedTokens reserved =
      ReservedTokens::parse(R"({"added_tokens_decoder":{"256":{"content":"<a"},"257":{"content":"<ab>"},"258":{"content":"b>c"}}})",
                            "f", 256)
          .value();
  const auto match = reserved.next("x<ab>c", 0);
  REQUIRE(match);
  CHECK(match->id == 257);
  CHECK(match->begin == 1);
  CHECK(match->end == 5);
  CHECK(reserved.next("x<ab c", 0)->id == 256);
  CHECK(reserved.next("x<ab>c", 2)->id == 258);
  CHECK_FALSE(reserved.next("x<ab>c", 5));
  CHECK_FALSE(reserved.next("", 0));
}

TEST_CASE("tokenizer files: load names the file that is missing or wrong") {
  const Folder folder;
  auto loaded = Tokenizer::load(folder.path);
  REQUIRE(loaded.has_error());
  CHECK(loaded.error().code == k3::ErrorCode::not_found);
  CHECK_THAT(loaded.error().describe(), Contains("tiktoken.model") && Contains("no such file"));

  folder.write("tiktoken.model", slurp(kTiny / "tiktoken.model"));
  loaded = Tokenizer::load(folder.path);
  REQUIRE(loaded.has_error());
  CHECK_THAT(loaded.error().describe(), Contains("tokenizer_config.json") && Contains("no such file"));

  folder.write("tokenizer_config.json", "{\"added_tokens_decoder\": {}}");
  loaded = Tokenizer::load(folder.path);
  REQUIRE(loaded.has_error());
  CHECK_THAT(loaded.error().describe(), Contains("tokenizer_config.json") && Contains("<|end_of_msg|>"));

  folder.write("tokenizer_config.json", slurp(kTiny / "tokenizer_config.json"));
  loaded = Tokenizer::load(folder.path);
  REQUIRE(loaded.has_value());
  Tokenizer moved = std::move(*loaded);
  CHECK(moved.encode("<|open|>", true).value() == std::vector<TokenId>{moved.control().open});

  fs::remove(folder.path / "tiktoken.model");
  fs::create_directory(folder.path / "tiktoken.model");
  loaded = Tokenizer::load(folder.path);
  REQUIRE(loaded.has_error());
  CHECK_THAT(loaded.error().describe(), Contains("not a regular file"));
}
