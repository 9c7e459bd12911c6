// Checksums against published values, and how a tensor's is made of its blocks'.
#include "model/checkpoint/checksum.hpp"

#include "tests/catch.hpp"

using namespace k3::checkpoint;

TEST_CASE("xxh64 gives the published values") {
  const auto of = [](std::string_view text) { return xxh64(text.data(), text.size()); };
  CHECK(of("") == 0xef46db3751d8e999);
  CHECK(of("a") == 0xd24ec4f1a98c6e5b);
  CHECK(of("abc") == 0x44bc2cf5ad770999);
  // More than one round of 32 bytes, and a tail of 4 + 3.
  CHECK(of("Nobody inspects the spammish repetition") == 0xfbcea83c8a378bf1);
}

TEST_CASE("every bit counts, at every length") {
  for (const std::size_t bytes : {1U, 5U, 9U, 31U, 32U, 33U, 63U, 64U, 100U}) {
    std::vector<unsigned char> data(bytes, 7);
    const auto whole = xxh64(data.data(), bytes);
    for (std::size_t bit = 0; bit < bytes * 8; ++bit) {
      data[bit / 8] ^= static_cast<unsigned char>(1U << bit % 8);
      CHECK(xxh64(data.data(), bytes) != whole);
      data[bit / 8] ^= static_cast<unsigned char>(1U << bit % 8);
    }
  }
}

TEST_CASE("a tensor's checksum depends on the order of its blocks") {
  CHECK(tensor_checksum(std::vector<std::uint64_t>{1, 2}) != tensor_checksum(std::vector<std::uint64_t>{2, 1}));
}

TEST_CASE("checksums as text come back, and what is no such text does not") {
  const std::vector<std::uint64_t> list{0, 1, 0xfedcba9876543210, UINT64_MAX};
  CHECK(checksum_text(list).size() == 64);
  CHECK(parse_checksums(checksum_text(list)) == list);
  CHECK(parse_checksums("").empty());
  CHECK(parse_checksums("0123").empty());
  CHECK(parse_checksums("012345678901234x").empty());
}
