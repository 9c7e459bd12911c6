// Headers of safetensors files, one fault each.
#include "model/checkpoint/safetensors.hpp"
#include "tests/catch.hpp"
#include "tests/checkpoint/support.hpp"

using namespace k3;
using namespace k3::checkpoint;
using namespace k3::test;

namespace {

const std::string good =
    R"({"__metadata__":{"format":"pt"},"b":{"dtype":"F32","shape":[2],"data_offsets":[8,16]},)"
    R"("a":{"dtype":"BF16","shape":[2,2],"data_offsets":[0,8]},"e":{"dtype":"U8","shape":[0],"data_offsets":[8,8]}})";

Result<Header> parse(const std::string& header, std::uint64_t data = 16) {
  return parse_header(header, 8 + header.size() + data, "file");
}

std::string refusal(const std::string& header, std::uint64_t data = 16) {
  const auto parsed = parse(header, data);
  REQUIRE_FALSE(parsed.has_value());
  CHECK(parsed.error().file == "file");
  return parsed.error().describe();
}

std::string changed(const std::string& from, const std::string& to) {
  std::string header = good;
  replace(header, from, to);
  return header;
}

}  // namespace

TEST_CASE("a good header gives tensors in the order of their data") {
  for (const std::string& header : {good, good + "      "}) {
    const auto parsed = parse(header);
    REQUIRE(parsed.has_value());
    REQUIRE(parsed->tensors.size() == 3);
    CHECK(parsed->tensors[0].name == "a");
    CHECK(parsed->tensors[0].tensor.offset == 8 + header.size());
    CHECK(parsed->tensors[0].tensor.dtype == DType::bf16);
    CHECK(parsed->tensors[2].name == "b");
    CHECK(parsed->tensors[2].tensor.offset == 8 + header.size() + 8);
    CHECK(parsed->tensors[2].tensor.bytes == 8);
    CHECK(parsed->tensors[2].tensor.rank == 1);
    CHECK(parsed->file_bytes == 8 + header.size() + 16);
    REQUIRE(parsed->find_metadata("format") != nullptr);
    CHECK(*parsed->find_metadata("format") == "pt");
    CHECK(parsed->find_metadata("a") == nullptr);
  }
}

TEST_CASE("a header without tensors describes a file without data") {
  CHECK(parse("{}", 0).has_value());
  CHECK_FALSE(parse("{}", 1).has_value());
}

TEST_CASE("faulty headers are refused") {
  const std::string b = R"("b":{"dtype":"F32","shape":[2],"data_offsets":[8,16]})";
  CHECK(contains(refusal(changed("[8,16]", "[9,17]"), 17), "gap"));
  CHECK(contains(refusal(changed("[8,16]", "[4,12]")), "overlaps"));
  CHECK(contains(refusal(changed("[8,16]", "[16,8]")), "backwards"));
  CHECK(contains(refusal(changed("[8,16]", "[8,15]")), "do not hold its shape"));
  CHECK(contains(refusal(good, 15), "truncated"));
  CHECK(contains(refusal(good, 17), "bytes follow"));
  CHECK(contains(refusal(changed("\"a\"", "\"b\"")), "occurs twice"));
  CHECK(contains(refusal(changed("\"F32\"", "\"F33\"")), "unknown dtype"));
  CHECK(contains(refusal(changed("[2,2]", "[2,-2]")), "whole numbers"));
  CHECK(contains(refusal(changed("[2,2]", "[2,2.0]")), "whole numbers"));
  CHECK(contains(refusal(changed("[2,2]", "[2,\"2\"]")), "whole numbers"));
  CHECK(contains(refusal(changed("[2,2]", "[1,1,1,1,4]")), "more dimensions"));
  CHECK(contains(refusal(changed("[2,2]", "[9223372036854775808,4]")), "overflows"));
  // A product that wraps round to the right size must not pass: 2 bytes x 2^62 x 4 = 2^65, 0 modulo 2^64.
  CHECK(contains(refusal(changed("[2,2],\"data_offsets\":[0,8]", "[4611686018427387904,4],\"data_offsets\":[0,0]"), 16),
                 "overflows"));
  CHECK(contains(refusal(changed("[8,16]", "[18446744073709551608,18446744073709551616]")), "whole numbers"));
  CHECK(contains(refusal(changed("[8,16]", "[18446744073709551607,18446744073709551615]")), "overflow"));
  CHECK(contains(refusal(changed("[8,16]", "[8,16,24]")), "pair"));
  CHECK(contains(refusal(changed("[8,16]", "[8]")), "pair"));
  CHECK(contains(refusal(changed("[8,16]", "8")), "not a list"));
  CHECK(contains(refusal(changed("\"shape\":[2],", "")), "lacks"));
  CHECK(contains(refusal(changed("\"shape\":[2],", "\"shape\":[2],\"shape\":[2],")), "repeated"));
  CHECK(contains(refusal(changed("\"shape\":[2],", "\"shape\":[2],\"extra\":1,")), "unknown or repeated"));
  CHECK(contains(refusal(changed(b, "\"b\":7")), "not valid JSON"));
  CHECK(contains(refusal(changed("\"format\":\"pt\"", "\"format\":1")), "__metadata__"));
  CHECK(contains(refusal("[]"), "not a JSON object"));
  CHECK(contains(refusal(""), "not a JSON object"));
  CHECK(contains(refusal(good.substr(0, good.size() - 1)), "JSON"));
  CHECK(contains(refusal(good + "{}"), "closing brace"));
  CHECK(contains(refusal(good + "x"), "JSON"));
  CHECK(contains(refusal(changed("\"a\"", "\"\xff\"")), "JSON"));
}

TEST_CASE("every cut of a good header is refused") {
  for (std::size_t size = 0; size < good.size(); ++size) CHECK_FALSE(parse(good.substr(0, size)).has_value());
}

TEST_CASE("a header larger than its file is refused") { CHECK_FALSE(parse_header(good, 8, "file").has_value()); }
