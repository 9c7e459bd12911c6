#include "model/text/utf8.hpp"

#include <string>
#include <vector>

#include "model/text/tokenizer.hpp"
#include "tests/catch.hpp"

using k3::text::Utf8Stream;
namespace utf8 = k3::text::utf8;

namespace {

std::string replaced(std::string_view bytes) {
  Utf8Stream stream;
  std::string out = stream.push(bytes);
  return out + stream.finish();
}

const std::string kBad = "\xef\xbf\xbd";

}  // namespace

TEST_CASE("utf8: what is not valid becomes one U+FFFD a maximal part") {
  const struct {
    std::string_view bytes;
    std::string expected;
  } cases[] = {
      {"", ""},
      {"abc", "abc"},
      {"\xc3\xa9\xe4\xb8\xad\xf0\x9f\x99\x82", "\xc3\xa9\xe4\xb8\xad\xf0\x9f\x99\x82"},
      {"\x80", kBad},
      {"\xc0\xaf", kBad + kBad},  // overlong: neither byte can stand there
      {"\xc1", kBad},
      {"\xe0\x9f\xbf", kBad + kBad + kBad},             // overlong in three bytes
      {"\xed\xa0\x80", kBad + kBad + kBad},             // a surrogate
      {"\xf4\x90\x80\x80", kBad + kBad + kBad + kBad},  // beyond U+10FFFF
      {"\xf5\xff", kBad + kBad},
      {"\xe4\xb8"
       "a",
       kBad + "a"},  // two bytes of three: one part
      {"\xf0\x9f\x99"
       "a",
       kBad + "a"},
      {"\xf0\x9f\xc3\xa9", kBad + "\xc3\xa9"},
      {"\xe4\xb8", kBad},
      {"\xf0\x9f\x99", kBad},
      // The example of the Unicode standard, table 3-11.
      {"\x61\xf1\x80\x80\xe1\x80\xc2\x62\x80\x63\x80\xbf\x64", "a" + kBad + kBad + kBad + "b" + kBad + "c" + kBad + kBad + "d"},
      {"\xf4\x8f\xbf\xbf\xee\x80\x80\xed\x9f\xbf", "\xf4\x8f\xbf\xbf\xee\x80\x80\xed\x9f\xbf"},
  };
  for (const auto& c : cases) {
    CAPTURE(c.bytes);
    CHECK(replaced(c.bytes) == c.expected);
  }
}

TEST_CASE("utf8: find_invalid names the first bad byte") {
  CHECK_FALSE(utf8::find_invalid(""));
  CHECK_FALSE(utf8::find_invalid("a\xc3\xa9\xe4\xb8\xad\xf0\x9f\x99\x82"));
  CHECK(utf8::find_invalid("ab\xff") == 2u);
  CHECK(utf8::find_invalid("\xc3\xa9\xed\xa0\x80") == 2u);
  CHECK(utf8::find_invalid("abc\xe4\xb8") == 3u);
  CHECK(utf8::find_invalid("\x80") == 0u);
}

TEST_CASE("utf8: every code point decodes to itself") {
  for (char32_t code = 0; code < 0x110000; ++code) {
    std::string text;
    const auto put = [&](char32_t byte) { text += static_cast<char>(byte); };
    if (code < 0x80) {
      put(code);
    } else if (code < 0x800) {
      put(0xc0 | code >> 6), put(0x80 | (code & 0x3f));
    } else if (code < 0x10000) {
      put(0xe0 | code >> 12), put(0x80 | (code >> 6 & 0x3f)), put(0x80 | (code & 0x3f));
    } else {
      put(0xf0 | code >> 18), put(0x80 | (code >> 12 & 0x3f)), put(0x80 | (code >> 6 & 0x3f)), put(0x80 | (code & 0x3f));
    }
    const utf8::Decoded decoded = utf8::decode(text, 0);
    const bool surrogate = code >= 0xd800 && code < 0xe000;
    const bool right = surrogate
                           ? decoded.status == utf8::Status::invalid && decoded.length == 1
                           : decoded.status == utf8::Status::valid && decoded.code_point == code && decoded.length == text.size();
    if (!right) FAIL("code point " << static_cast<unsigned>(code));
  }
}

TEST_CASE("utf8: a stream gives the same text wherever it is cut, and never half a code point") {
  const std::vector<std::string> texts = {
      "a\xc3\xa9\xe4\xb8\xad\xf0\x9f\x99\x82z\xcc\x81\xe2\x80\x8d", "\xf0\x9f\x91\xa9\xe2\x80\x8d\xf0\x9f\x91\xa9",
      "\xe4\xb8\xf0\x9f\x99\xed\xa0\x80x\xf4\x90\xc3",  // much of it invalid
  };
  for (const std::string& text : texts) {
    const std::string whole = replaced(text);
    for (std::size_t first = 0; first <= text.size(); ++first) {
      for (std::size_t second = first; second <= text.size(); ++second) {
        Utf8Stream stream;
        std::string joined;
        for (const std::string& part : {text.substr(0, first), text.substr(first, second - first), text.substr(second)}) {
          const std::string out = stream.push(part);
          REQUIRE_FALSE(utf8::find_invalid(out));
          joined += out;
        }
        REQUIRE(joined + stream.finish() == whole);
        REQUIRE(stream.finish().empty());
      }
    }
    Utf8Stream bytewise;
    std::string joined;
    for (const char byte : text) joined += bytewise.push(std::string_view(&byte, 1));
    CHECK(joined + bytewise.finish() == whole);
  }
}

TEST_CASE("utf8: a stream holds back only what may still complete") {
  Utf8Stream stream;
  CHECK(stream.push("a\xf0\x9f") == "a");
  CHECK(stream.push("\x99").empty());
  CHECK(stream.push("\x82"
                    "b") ==
        "\xf0\x9f\x99\x82"
        "b");
  CHECK(stream.push("\xe4\xb8").empty());
  CHECK(stream.push("x") == kBad + "x");  // proven invalid
  CHECK(stream.push("\xed").empty());
  CHECK(stream.push("\xa0") == kBad + kBad);  // at once: no third byte could save a surrogate
  CHECK(stream.push("\xc3").empty());
  CHECK(stream.finish() == kBad);
  CHECK(stream.push("ok") == "ok");
}
