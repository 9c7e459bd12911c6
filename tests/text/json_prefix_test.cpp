// The scanner that other tests trust, against the parser: all short texts.
#include "tests/json_prefix.hpp"

#include "model/text/json.hpp"
#include "tests/catch.hpp"

using namespace k3;

namespace {

bool is_json(const std::string& text) { return json::parse(text).has_value(); }

// Extends `text` by every letter as long as something can still become of it; counts what was looked at.
std::size_t look(const std::string& text, const test::JsonPrefix& scanner, std::string_view letters, std::size_t more) {
  std::size_t looked = 1;
  for (const char c : letters) {
    const std::string longer = text + c;
    test::JsonPrefix next = scanner;
    const bool alive = next.push({&c, 1});
    if (next.complete() != is_json(longer)) FAIL(longer << " is " << (is_json(longer) ? "" : "not ") << "a document");
    if (!alive) continue;
    if (!is_json(longer + next.completion())) FAIL(longer << " is not completed by " << next.completion());
    if (more > 1) looked += look(longer, next, letters, more - 1);
  }
  return looked;
}

bool begins_json(std::string_view text) { return test::JsonPrefix().push(text); }

}  // namespace

TEST_CASE("the scanner of JSON's beginnings agrees with the parser on all short texts", "[json]") {
  CHECK(look("", {}, R"({}[]":,0)", 7) > 1000);
  CHECK(look("", {}, "-0.1eE+] ", 6) > 500);
  CHECK(look("", {}, "truefalsn[", 6) > 40);
  CHECK(look(
            "\"\\u",
            [] {
              test::JsonPrefix begun;
              begun.push("\"\\u");
              return begun;
            }(),
            "0dD8cF\"", 5) > 1000);
  CHECK(look(
            R"("\ud83d)",
            [] {
              test::JsonPrefix begun;
              begun.push(R"("\ud83d)");
              return begun;
            }(),
            "\\udD8c0\"n", 7) > 10);
}

TEST_CASE("texts that no document begins with", "[json]") {
  for (const std::string_view text :
       {"}", "{,", "{\"a\" 1", "{\"a\":}", "[1,]", "[1 2", "01", "1.e", "tru,", "\"\n", "\"\\x", "{}{", "{1", "[}"}) {
    INFO(text);
    CHECK_FALSE(begins_json(text));
  }
}
