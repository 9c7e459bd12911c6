// Each keyword: documents that are accepted, documents that are not, and schemas that are refused with a place.
#include "tests/catch.hpp"
#include "tests/grammar/fixture.hpp"

using namespace k3;
using namespace k3::grammar;

namespace {

struct Case {
  std::string schema;
  std::vector<std::string> good, bad;
};

const std::vector<Case> cases{
    {R"({"type":"null"})", {"null"}, {"nul", "nullx", "true", ""}},
    {R"({"type":["boolean","null"]})", {"true", "false", "null"}, {"0", "\"true\""}},
    {R"({"type":"integer"})",
     {"0", "-1", "10", "123456789012345678"},
     {"01", "-0", "1.0", "1e3", "+1", "1234567890123456789", "-"}},
    {R"({"type":"number"})", {"0", "-0.5", "1e9", "1.25E-7", "100"}, {"01", ".5", "1.", "1e", "1e999", "NaN"}},
    {R"({"type":"integer","minimum":-3,"maximum":12})", {"-3", "-1", "0", "9", "10", "12"}, {"-4", "13", "-10", "120", "00"}},
    {R"({"type":"integer","exclusiveMinimum":5,"exclusiveMaximum":7})", {"6"}, {"5", "7", "60"}},
    {R"({"type":"integer","minimum":99,"maximum":1001})", {"99", "100", "999", "1000", "1001"}, {"98", "1002", "9", "10000"}},
    {R"({"type":"number","minimum":0.5,"maximum":2})",
     {"0.5", "0.50", "1", "1.999", "2", "2.0"},
     {"0.49", "0", "2.01", "1e0", "-1", "0.4999"}},
    {R"({"type":"number","exclusiveMinimum":0,"exclusiveMaximum":1})",
     {"0.1", "0.00001", "0.99"},
     {"0", "0.0", "0.00", "1", "1.0"}},
    {R"({"type":"number","maximum":-1.5})", {"-1.5", "-1.50", "-2", "-100.25"}, {"-1.4", "-1", "0", "1"}},
    {R"({"type":"number","minimum":2,"exclusiveMinimum":2})", {"2.1", "3"}, {"2", "2.0"}},
    {R"({"type":"string"})",
     {R"("")", R"("a")", "\"\xc3\xa9\"", R"("\"\\\n\u0001")", "\"\xf0\x9f\x98\x80\""},
     {"\"\n\"", "\"\xc3\"", "\"\xed\xa0\x80\"", "\"\xff\"", "\"\xc0\x80\"", "\"\xf4\x90\x80\x80\"", R"("\x")", R"("\ud800")",
      "\"a"}},
    {R"({"type":"string","minLength":2,"maxLength":3})",
     {R"("ab")", R"("a\n")", "\"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\""},
     {R"("a")", R"("abcd")", R"("")"}},
    {R"({"type":"string","pattern":"b+$"})", {R"("b")", R"("abb")", R"("bab")"}, {R"("ba")", R"("")", R"("a")"}},
    {R"({"type":"string","pattern":"^(?:a|b)c?$"})", {R"("a")", R"("bc")"}, {R"("c")", R"("ab")", R"("acc")"}},
    {R"({"type":"string","pattern":"^a|b$"})", {R"("ax")", R"("xb")", R"("a")"}, {R"("xax")", R"("bx")"}},
    {R"({"type":"string","pattern":"^[^\"\\\\]{2}$"})", {R"("ab")", R"("\n\t")"}, {R"("a\"")", R"("\\b")"}},
    {R"({"type":"string","pattern":"^\\u{1F600}[\\uD83D\\uDE00-\\uD83D\\uDE02]\\x41\\.$"})",
     {"\"\xf0\x9f\x98\x80\xf0\x9f\x98\x81"
      "A.\""},
     {"\"\xf0\x9f\x98\x80\xf0\x9f\x98\x83"
      "A.\""}},
    {R"({"type":"string","pattern":"^.$"})", {R"("a")", "\"\xf0\x9f\x98\x80\""}, {R"("\n")", R"("")", "\"\xe2\x80\xa8\""}},
    {R"({"type":"string","pattern":"^\\s\\S\\d\\D\\w\\W$"})", {R"(" a1bc-")"}, {R"("aa1bc-")", R"(" a1bcd")"}},
    {R"({"type":"string","format":"date"})",
     {R"("2024-02-29")", R"("2000-02-29")", R"("1999-12-31")"},
     {R"("2023-02-29")", R"("1900-02-29")", R"("2024-13-01")", R"("2024-04-31")", R"("24-01-01")"}},
    {R"({"type":"string","format":"time"})",
     {R"("23:59:59Z")", R"("00:00:00.123+05:30")"},
     {R"("24:00:00Z")", R"("12:00:00")", R"("12:60:00Z")"}},
    {R"({"type":"string","format":"ipv4"})",
     {R"("0.0.0.0")", R"("255.249.199.9")"},
     {R"("256.1.1.1")", R"("01.1.1.1")", R"("1.1.1")"}},
    {R"({"type":"string","format":"ipv6"})",
     {R"("::")", R"("::1")", R"("fe80::1:2")", R"("1:2:3:4:5:6:7:8")"},
     {R"(":1")", R"("1::2::3")", R"("1:2:3:4:5:6:7")", R"("12345::")"}},
    {R"({"type":"string","format":"duration"})",
     {R"("P1Y2M3DT4H5M6S")", R"("PT1M")", R"("P2W")", R"("P1Y3D")"},
     {R"("P")", R"("PT")", R"("P1H")", R"("PT1H3D")"}},
    {R"({"enum":["a",1,null,[true],{"k":2}]})",
     {R"("a")", "1", "null", "[true]", R"({"k":2})"},
     {R"("b")", "2", "[false]", "[true"}},
    {R"({"const":"x\u0000y"})", {R"("x\u0000y")"}, {R"("xy")"}},
    {R"({"const":1,"enum":[1,2],"type":"integer"})", {"1"}, {"2"}},
    {R"({"type":"array","items":{"type":"null"},"minItems":1,"maxItems":2})",
     {"[null]", "[null,null]"},
     {"[]", "[null,null,null]", "[null,]", "[,null]"}},
    {R"({"type":"array","prefixItems":[{"type":"null"},{"type":"boolean"}],"items":{"type":"integer"},"minItems":1})",
     {"[null]", "[null,true]", "[null,true,1,2]"},
     {"[]", "[true]", "[null,1]"}},
    {R"({"type":"object","properties":{"a":{"type":"null"},"b":{"type":"null"},"c":{"type":"null"}},"required":["b"]})",
     {R"({"b":null})", R"({"a":null,"b":null})", R"({"b":null,"c":null})"},
     {"{}", R"({"a":null})", R"({"b":null,"a":null})", R"({"b":null,"b":null})", R"({"b":null,})", R"({"b":null,"d":null})",
      R"({ "b":null})"}},
    {R"({"type":"object","properties":{"a":{"type":"null"}},"additionalProperties":{"type":"integer"}})",
     {"{}", R"({"a":null,"b":1})", R"({"b":1,"aa":2,"":3})"},
     {R"({"a":1})", R"({"b":null})", R"({"b":1,"a":1})"}},
    {R"({"type":"object","patternProperties":{"^a":{"type":"null"},"^b":{"type":"integer"}},"additionalProperties":false})",
     {R"({"ax":null,"b":1})", "{}"},
     {R"({"ax":1})", R"({"c":1})"}},
    {R"({"type":"object","required":["z"],"additionalProperties":{"type":"integer"}})",
     {R"({"z":1})", R"({"z":1,"y":2})"},
     {"{}", R"({"y":2})"}},
    {R"({"anyOf":[{"type":"integer"},{"type":"null"}]})", {"1", "null"}, {"true"}},
    {R"({"type":"integer","anyOf":[{"minimum":10},{"maximum":-10}]})", {"10", "-10"}, {"0", "9"}},
    {R"({"allOf":[{"minimum":1},{"maximum":3}],"type":"integer"})", {"1", "3"}, {"0", "4"}},
    {R"({"$ref":"#/$defs/a~1b","$defs":{"a/b":{"type":"null"}}})", {"null"}, {"1"}},
    {R"({"type":"array","items":{"$ref":"#"}})", {"[]", "[[],[[]]]"}, {"[", "[1]", "[[]"}},
};

struct Refusal {
  std::string schema, beginning;
};

const std::vector<Refusal> refusals{
    {R"(3)", ": a schema must be"},
    {R"(false)", ": false"},
    {R"({"type":"strin"})", "/type: type must"},
    {R"({"properties":{"a":{"not":{}}}})", "/properties/a/not: \"not\" is not supported"},
    {R"({"if":{},"then":{}})", "/if: \"if\" is not supported"},
    {R"({"items":{"contains":{}}})", "/items/contains: \"contains\""},
    {R"({"uniqueItems":true})", "/uniqueItems: uniqueItems is not supported"},
    {R"({"type":"integer","multipleOf":3})", "/multipleOf: multipleOf"},
    {R"({"format":"iri"})", "/format: format \"iri\" is not supported"},
    {R"~({"pattern":"(?=a)"})~", "/pattern: pattern \"(?=a)\": look-around"},
    {R"({"pattern":"(a)\\1"})", "/pattern: pattern"},
    {R"({"pattern":"\\bx"})", "/pattern: pattern"},
    {R"({"pattern":"a{2,1}"})", "/pattern: pattern"},
    {R"({"pattern":"(a"})", "/pattern: pattern"},
    {R"({"pattern":"[z-a]"})", "/pattern: pattern"},
    {R"({"pattern":"a^b"})", "/pattern: pattern \"a^b\" matches no string"},
    {R"({"pattern":"^a{5}$","maxLength":3})", "/pattern: pattern and the keywords beside it"},
    {R"({"minLength":3,"maxLength":2})", "/maxLength: "},
    {R"({"minItems":3,"maxItems":2})", "/maxItems: "},
    {R"({"minItems":1,"items":false})", "/minItems: "},
    {R"({"minLength":-1})", "/minLength: "},
    {R"({"minLength":1.5})", "/minLength: "},
    {R"({"type":"integer","minimum":3,"maximum":2})", "/maximum: "},
    {R"({"type":"integer","exclusiveMinimum":3,"exclusiveMaximum":4})", "/exclusiveMaximum: "},
    {R"({"type":"number","minimum":1.00000000000000000001})", "/minimum: "},
    {R"({"type":"string","enum":[1,2]})", "/enum: "},
    {R"({"enum":[]})", "/enum: "},
    {R"({"enum":["a"],"minLength":2})", "/minLength: "},
    {R"({"required":["a"],"additionalProperties":false})", "/required: "},
    {R"({"properties":{"a":false},"required":["a"]})", "/required: "},
    {R"({"patternProperties":{"a":{},"b":{}}})", "/patternProperties/b: "},
    {R"({"properties":{"a":{},"b":{}},"maxProperties":1})", "/maxProperties: "},
    {R"({"type":"object","minProperties":2})", "/minProperties: "},
    {R"({"items":[{}]})", "/items: "},
    {R"({"$ref":"other.json"})", "/$ref: "},
    {R"({"$ref":"#/$defs/none"})", "/$ref: "},
    {R"({"$ref":"#"})", ": no document can satisfy this"},
    {R"({"properties":{"a":{"$ref":"#/$defs/n"}},"$defs":{"n":{"required":["n"],"properties":{"n":{"$ref":"#/$defs/n"}}}}})",
     "/$defs/n: no document"},
    {R"({"items":{"$id":"x"}})", "/items/$id: $id"},
    {R"({"oneOf":[{"type":"integer"},{"type":"number"}]})", "/oneOf: oneOf"},
    {R"({"oneOf":[{"properties":{"k":{"const":1}}},{"properties":{"k":{"const":2}}}]})", "/oneOf: oneOf"},
    {R"({"anyOf":[]})", "/anyOf: "},
    {R"({"allOf":[{"type":"string"},{"type":"null"}]})", ": types that exclude"},
    {R"({"allOf":[{"pattern":"a"},{"pattern":"b"}]})", ": different values of pattern"},
    {R"({"$ref":"#/$defs/a","$defs":{"a":{"allOf":[{"$ref":"#/$defs/a"},{"type":"null"}]}}})", "/$defs/a: $ref and allOf lead"},
};

}  // namespace

TEST_CASE("each keyword accepts what it should and nothing else", "[grammar]") {
  for (const Case& c : cases) {
    const auto grammar = test::grammar_of(c.schema);
    for (const std::string& document : c.good) {
      INFO(c.schema << " should accept " << document);
      REQUIRE(test::matches(grammar, document));
    }
    for (const std::string& document : c.bad) {
      INFO(c.schema << " should not accept " << document);
      REQUIRE_FALSE(test::matches(grammar, document));
    }
  }
}

TEST_CASE("what cannot be kept is refused, with its place", "[grammar]") {
  for (const Refusal& r : refusals) {
    const std::string refused = test::refusal(r.schema);
    INFO(r.schema << " gave '" << refused << "'");
    REQUIRE(refused.starts_with(r.beginning));
  }
}

TEST_CASE("E16: each unsupported keyword is refused by its name and pointer", "[grammar]") {
  CHECK(test::refused_schemas().size() > 70);
  for (const test::Refused& r : test::refused_schemas()) {
    const std::string refused = test::refusal(r.schema);
    INFO(r.schema << " gave '" << refused << "'");
    CHECK(refused.starts_with(r.pointer + ": "));
    CHECK(refused.find(r.keyword, r.pointer.size() + 2) != std::string::npos);
  }
}

TEST_CASE("a pattern or format that many members share is worked out once", "[grammar]") {
  std::string members;
  for (int i = 0; i < 700; ++i) {
    members += (i > 0 ? ",\"p" : "\"p") + std::to_string(i) +
               (i % 2 == 0 ? R"(":{"format":"email"})" : R"(":{"pattern":"(a|b)*a(a|b){9}$"})");
  }
  CHECK(test::refusal(R"({"type":"object","properties":{)" + members + "}}").empty());
}

TEST_CASE("whole numbers within bounds, each of them", "[grammar]") {
  for (const auto& [low, high] : std::vector<std::pair<int, int>>{
           {0, 0}, {0, 9}, {1, 10}, {7, 123}, {-15, -3}, {-120, 45}, {95, 105}, {100, 999}, {11, 11}}) {
    const auto grammar =
        test::grammar_of(R"({"type":"integer","minimum":)" + std::to_string(low) + R"(,"maximum":)" + std::to_string(high) + "}");
    for (int i = -1100; i <= 1100; ++i) {
      INFO(low << ".." << high << " " << i);
      REQUIRE(test::matches(grammar, std::to_string(i)) == (i >= low && i <= high));
    }
  }
}

TEST_CASE("decimals within bounds, on a fine grid", "[grammar]") {
  const auto written = [](int hundredths) {
    const int size = std::abs(hundredths);
    const std::string fraction = std::to_string(size % 100);
    return (hundredths < 0 ? "-" : "") + std::to_string(size / 100) + "." + (fraction.size() < 2 ? "0" : "") + fraction;
  };
  for (const auto& [low, high] :
       std::vector<std::pair<int, int>>{{0, 100}, {5, 5}, {-250, 1050}, {99, 101}, {-999, -1}, {123, 187}, {-5, 0}}) {
    const std::string bounds = written(low) + R"(,"maximum":)" + written(high);
    const auto closed = test::grammar_of(R"({"type":"number","minimum":)" + bounds + "}");
    for (int i = -1200; i <= 1200; ++i) {
      if (i <= 0 && i > -100 && written(i).starts_with("-0.00")) continue;
      INFO(bounds << " " << written(i));
      REQUIRE(test::matches(closed, written(i)) == (i >= low && i <= high));
    }
  }
}
