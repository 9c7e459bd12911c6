#include "model/text/tokenizer.hpp"

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "model/text/bpe.hpp"
#include "tests/catch.hpp"

using namespace k3::text;

namespace {

const Tokenizer& mini() {
  static const Tokenizer tokenizer = Tokenizer::load(K3_SOURCE_DIR "/tools/mini/model").value();
  return tokenizer;
}

std::vector<TokenId> encode(std::string_view text, bool special = false) { return mini().encode(text, special).value(); }

// Byte pair encoding by its definition: of all adjacent pairs join the leftmost of the lowest rank, again and again.
std::vector<TokenId> join_naively(const Vocabulary& vocabulary, std::string_view piece) {
  std::vector<std::string> parts;
  for (const char byte : piece) parts.emplace_back(1, byte);
  if (vocabulary.find(piece) != Vocabulary::kNone) parts = {std::string(piece)};
  for (;;) {
    std::uint32_t best = Vocabulary::kNone;
    std::size_t where = 0;
    for (std::size_t i = 0; i + 1 < parts.size(); ++i) {
      const std::uint32_t rank = vocabulary.find(parts[i] + parts[i + 1]);
      if (rank < best) best = rank, where = i;
    }
    if (best == Vocabulary::kNone) break;
    parts[where] += parts[where + 1];
    parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(where) + 1);
  }
  std::vector<TokenId> ids;
  for (const std::string& part : parts) ids.push_back(static_cast<TokenId>(vocabulary.find(part)));
  return ids;
}

Vocabulary vocabulary_of(const std::vector<std::string>& words) {
  std::vector<std::string> all;
  for (int byte = 0; byte < 256; ++byte) all.emplace_back(1, static_cast<char>(byte));
  all.insert(all.end(), words.begin(), words.end());
  std::vector<Vocabulary::Entry> entries;
  for (std::size_t i = 0; i < all.size(); ++i) {
    entries.push_back({static_cast<std::uint32_t>(i), static_cast<std::uint32_t>(i + 1), all[i]});
  }
  return Vocabulary::build(std::move(entries)).value();
}

std::string random_text(std::mt19937& random) {
  static const std::vector<std::string> parts = {"hello", " world", "'s",     "中文",     "é",     "\n", "  ",
                                                 "1234",  "🙂",   "\u0301", "<|open|>", "[EOS]", "!"};
  std::string text;
  for (std::size_t n = random() % 20; n > 0; --n) text += parts[random() % parts.size()];
  return text;
}

}  // namespace

TEST_CASE("tokenizer: vocabulary, control tokens and reserved names") {
  CHECK(mini().vocabulary_size() == 1536 + 256);
  CHECK(mini().control().end_of_sequence == 1537);
  CHECK(mini().control().end_of_message == 1538);
  CHECK(mini().control().open == 1539);
  CHECK(mini().control().close == 1540);
  CHECK(mini().control().separator == 1541);
  CHECK(mini().reserved("[BOS]") == 1536);
  CHECK(mini().reserved("<|reserved_token_1544|>") == 1544);
  CHECK_FALSE(mini().reserved("hello"));
  CHECK(mini().bytes(1539) == "<|open|>");
  CHECK(mini().bytes(0) == "!");
  CHECK(mini().bytes(1535) == " Ro");
  CHECK(mini().bytes(-1).empty());
  CHECK(mini().bytes(1536 + 256).empty());
  CHECK_FALSE(mini().is_reserved(1535));
  CHECK(mini().is_reserved(1536));
  CHECK(mini().is_reserved(1791));
  CHECK_FALSE(mini().is_reserved(1792));
  CHECK_FALSE(mini().is_reserved(-1));
}

TEST_CASE("tokenizer: a byte vocabulary gives bytes, and gaps among the reserved names are filled") {
  const Tokenizer bytes = Tokenizer::load(K3_TEST_DATA "/tiny/model").value();
  CHECK(bytes.vocabulary_size() == 512);
  const auto ids = bytes.encode("a\xc3\xa9", false).value();
  REQUIRE(ids.size() == 3);
  CHECK(bytes.bytes(ids[0]) == "a");
  CHECK(bytes.bytes(ids[1]) == "\xc3");
}

TEST_CASE("tokenizer: reserved strings are structure only where they are allowed") {
  CHECK(encode("<|open|>", true) == std::vector<TokenId>{1539});
  CHECK(encode("<|open|><|sep|>[EOS]", true) == std::vector<TokenId>{1539, 1541, 1537});
  for (const TokenId id : encode("a<|open|>b[EOS]<osagent_mode>[PAD]", false)) CHECK_FALSE(mini().is_reserved(id));
  // Text around a marker is split by itself: the space before it does not see what follows.
  const auto around = encode("a  <|open|>  b", true);
  std::vector<TokenId> expected = encode("a  ");
  expected.push_back(1539);
  for (const TokenId id : encode("  b")) expected.push_back(id);
  CHECK(around == expected);
  CHECK(encode("<|open|", true) == encode("<|open|", false));
  for (TokenId id = 1536; id < 1792; ++id) CHECK(encode(mini().bytes(id), true) == std::vector<TokenId>{id});
}

TEST_CASE("tokenizer: segments are encoded alone") {
  const std::vector<Segment> segments = {{"<|open|>", true}, {"hel", false}, {"lo<|open|>", false}, {"", true}};
  std::vector<TokenId> expected = {1539};
  for (const TokenId id : encode("hel")) expected.push_back(id);
  for (const TokenId id : encode("lo<|open|>")) expected.push_back(id);
  CHECK(mini().encode(segments).value() == expected);
  CHECK(encode("").empty());
  CHECK(encode("", true).empty());
  const std::vector<Segment> bad = {{"ok", true}, {"a\xff", false}};
  const auto result = mini().encode(bad);
  REQUIRE(result.has_error());
  CHECK(result.error().message.find("segment 1") != std::string::npos);
}

TEST_CASE("tokenizer: invalid UTF-8 is refused with its place") {
  for (const bool special : {false, true}) {
    const auto result = mini().encode("abc\xed\xa0\x80", special);
    REQUIRE(result.has_error());
    CHECK(result.error().code == k3::ErrorCode::invalid_argument);
    CHECK(result.error().offset == 3);
  }
}

TEST_CASE("tokenizer: decode joins bytes and replaces what is not UTF-8") {
  const auto smile = encode("🙂");
  REQUIRE(smile.size() > 1);
  CHECK(mini().decode(smile) == "🙂");
  CHECK(mini().decode(std::span(smile).first(1)) == "\ufffd");
  CHECK(mini().decode(std::vector<TokenId>{1539, -5, 99999}) == "<|open|>");
  CHECK(mini().decode({}) == "");
}

TEST_CASE("tokenizer: decode gives back what was encoded") {
  std::mt19937 random(2);
  for (int round = 0; round < 2000; ++round) {
    const std::string text = random_text(random);
    CAPTURE(text);
    REQUIRE(mini().decode(encode(text)) == text);
    REQUIRE(mini().decode(encode(text, true)) == text);
  }
}

TEST_CASE("tokenizer: an adversary cannot make encoding slow") {
  // Quadratic merging of any of these would take minutes; there is nothing to measure.
  for (const char* unit : {"a", " ", "\n", "\u0301", "'", "<|", "<|reserved_token_", "é", "ab", "!", "in"}) {
    std::string text;
    while (text.size() < 1'000'000) text += unit;
    for (const bool special : {false, true}) CHECK(mini().decode(encode(text, special)) == text);
  }
}

TEST_CASE("tokenizer: the guard's slices are encoded one by one") {
  const std::string long_word(25'001, 'a');
  std::vector<TokenId> expected = encode(long_word.substr(0, 25'000));
  expected.push_back(encode("a")[0]);
  CHECK(encode(long_word) == expected);
}

TEST_CASE("bpe: pairs of lowest rank first, leftmost first") {
  const Vocabulary vocabulary = vocabulary_of({"bc", "ab", "abc", "aa", "aaa", "xyz"});
  const auto joined = [&](std::string_view piece) {
    std::vector<TokenId> ids;
    PieceEncoder(vocabulary).encode(piece, ids);
    return ids;
  };
  CHECK(joined("a") == std::vector<TokenId>{'a'});
  CHECK(joined("abcd") == std::vector<TokenId>{258, 'd'});  // bc before ab, then a + bc
  CHECK(joined("aaaa") == std::vector<TokenId>{259, 259});  // aa aa; aaa would need aa + a adjacent at a lower rank
  CHECK(joined("aaaaa") == std::vector<TokenId>{259, 260});
  CHECK(joined("xyz") == std::vector<TokenId>{261});  // a whole piece, though no merges lead there
  CHECK(joined("xyzx") == std::vector<TokenId>{'x', 'y', 'z', 'x'});
}

TEST_CASE("bpe: both ways of merging agree with the definition") {
  std::mt19937 random(3);
  for (int round = 0; round < 300; ++round) {
    std::vector<std::string> words;
    for (int n = 0; n < 60; ++n) {
      std::string word;
      for (std::size_t length = 2 + random() % 5; length > 0; --length) word += static_cast<char>('a' + random() % 3);
      if (std::find(words.begin(), words.end(), word) == words.end()) words.push_back(word);
    }
    const Vocabulary vocabulary = vocabulary_of(words);
    PieceEncoder encoder(vocabulary);
    for (const std::size_t length : {3u, 20u, 95u, 96u, 97u, 98u, 300u}) {
      std::string piece;
      while (piece.size() < length) piece += static_cast<char>('a' + random() % 3);
      std::vector<TokenId> ids;
      encoder.encode(piece, ids);
      REQUIRE(ids == join_naively(vocabulary, piece));
    }
  }
}
