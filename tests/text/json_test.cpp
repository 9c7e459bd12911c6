#include "model/text/json.hpp"

#include <cmath>

#include "tests/catch.hpp"

using namespace k3;

namespace {

std::string compact(std::string_view text) {
  const auto value = json::parse(text);
  REQUIRE(value.has_value());
  std::string out;
  json::Writer(out).value(*value);
  return out;
}

std::string python(std::string_view text, const json::PythonStyle& style = {}) {
  return json::python_dumps(json::parse(text).value(), style);
}

json::Value number(std::string text) {
  json::Value value;
  value.kind = json::Value::Kind::number;
  value.text = std::move(text);
  return value;
}

std::string nested(std::size_t depth) { return std::string(depth, '[') + "0" + std::string(depth, ']'); }

}  // namespace

TEST_CASE("numbers stay as they were written", "[json]") {
  for (const std::string text :
       {"0", "-0", "1e2", "1E+2", "18446744073709551616", "1e400", "-1.50", "0.1e-7", "123456789012345678901234567890"}) {
    CHECK(compact(text) == text);
    CHECK(compact("[" + text + ", " + text + " ]") == "[" + text + "," + text + "]");
  }
}

TEST_CASE("every kind of value is read", "[json]") {
  CHECK(compact(" { \"a\" : [ null , true , false , \"x\" , 1 , { } , [ ] ] , \"a\" : 2 } \n") ==
        R"({"a":[null,true,false,"x",1,{},[]],"a":2})");
  CHECK(compact("\"\\u00e9\\ud83d\\ude00\\/\\b\\f\\n\\r\\t\\u0001\\u007f\"") == "\"é😀/\\b\\f\\n\\r\\t\\u0001\x7f\"");
  CHECK(compact("\xEF\xBB\xBF[1]") == "[1]");
  const json::Value twice = json::parse(R"({"a":1,"a":2})").value();
  CHECK(twice.members.size() == 2);
  CHECK(twice.find("a")->text == "2");
  CHECK(twice.find("b") == nullptr);
  CHECK(twice.find("a")->find("a") == nullptr);
}

TEST_CASE("what is not JSON is refused", "[json]") {
  for (const std::string text : {"",
                                 " ",
                                 "{",
                                 "[",
                                 "]",
                                 "}",
                                 "[1,]",
                                 "{\"a\":1,}",
                                 "{\"a\"}",
                                 "{a:1}",
                                 "{1:2}",
                                 "01",
                                 "1.",
                                 ".5",
                                 "+1",
                                 "-",
                                 "1e",
                                 "0x1",
                                 "nul",
                                 "nulll",
                                 "truex",
                                 "NaN",
                                 "Infinity",
                                 "\"abc",
                                 "\"a\\qb\"",
                                 "\"\\u00\"",
                                 "1 2",
                                 "1,2",
                                 "1],[2",
                                 "[1 2]",
                                 "{\"a\":1}}",
                                 "[1}",
                                 "{\"a\":[1}",
                                 "[,]",
                                 "{,}",
                                 "{\"a\":,}",
                                 "{\"a\":1 \"b\":2}",
                                 "[1]x",
                                 "/**/1",
                                 "'a'",
                                 "[1\"a\"]",
                                 "[null{}]",
                                 "{\"a\" 1}"}) {
    INFO(text);
    const auto value = json::parse(text);
    REQUIRE(value.has_error());
    CHECK(value.error().code == ErrorCode::invalid_argument);
  }
}

TEST_CASE("bad characters are refused, wherever they are", "[json]") {
  for (const std::string bad : {"\xff", "\xc3", "\xed\xa0\x80", "\xc0\xaf", "\xf5\x80\x80\x80", "\t", "\n", "\x01", "\\ud83d",
                                "\\ude00", "\\ud83d\\u0041", "\\ud83dx"}) {
    INFO(bad);
    CHECK(json::parse("\"x" + bad + "y\"").has_error());
    CHECK(json::parse("{\"x" + bad + "y\":1}").has_error());
    CHECK(json::parse("{\"a\":[\"" + bad + "\"]}").has_error());
  }
  CHECK(json::parse(std::string("\"a\0b\"", 5)).has_error());
  CHECK(json::parse(std::string("1\0", 2)).has_error());
  CHECK(json::parse("\"\\ud83d\\ude00\"").has_value());
}

TEST_CASE("errors say where", "[json]") {
  CHECK(json::parse("[1, nope]").error().offset == 4);
  CHECK(json::parse("\xEF\xBB\xBF[1, nope]").error().offset == 7);
  CHECK(json::parse("nope").error().offset == 0);
  CHECK(json::parse("{\"a\":01}").error().offset == 5);
}

TEST_CASE("depth is limited", "[json]") {
  CHECK(json::parse(nested(64)).has_value());
  for (const std::size_t depth : {65, 1000, 10000, 1000000}) CHECK(json::parse(nested(depth)).has_error());
  CHECK(json::parse(nested(3), {3}).has_value());
  CHECK(json::parse(nested(4), {3}).has_error());
  CHECK(json::parse("{\"a\":{\"a\":{\"a\":{}}}}", {3}).has_error());
  CHECK(json::parse(std::string(1000000, '[')).has_error());
}

TEST_CASE("numbers as double and as integer", "[json]") {
  CHECK(number("0.1").as_double().value() == 0.1);
  CHECK(number("1e400").as_double().value() == INFINITY);
  CHECK(number("-1e400").as_double().value() == -INFINITY);
  CHECK(number("1e-400").as_double().value() == 0);
  CHECK(number("0e400").as_double().value() == 0);
  CHECK(number("5e-324").as_double().value() == 5e-324);
  CHECK(json::parse("\"1\"")->as_double().has_error());

  CHECK(number("5").as_int().value() == 5);
  CHECK(number("-5.0").as_int().value() == -5);
  CHECK(number("5e0").as_int().value() == 5);
  CHECK(number("0.05e2").as_int().value() == 5);
  CHECK(number("1200e-2").as_int().value() == 12);
  CHECK(number("-0").as_int().value() == 0);
  CHECK(number("0e99999999999999999999").as_int().value() == 0);
  CHECK(number("9223372036854775807").as_int().value() == INT64_MAX);
  CHECK(number("-9223372036854775808").as_int().value() == INT64_MIN);
  for (const std::string text : {"9223372036854775808", "1.5", "1e19", "1e99999999999999999999", "1e-1", "15e-1"}) {
    CHECK(number(text).as_int().has_error());
  }
  CHECK(number("1.5").as_int().error().got == "1.5");
  CHECK(json::parse("true")->as_int().has_error());
}

TEST_CASE("the writer puts commas and escapes", "[json]") {
  std::string out;
  json::Writer writer(out);
  writer.begin_object().key("a").begin_array().integer(1).null().begin_object().end_object().end_array();
  writer.key("b\"")
      .string("x\ny")
      .key("c")
      .number(0.1)
      .key("d")
      .number(INFINITY)
      .key("e")
      .raw("[1]")
      .key("f")
      .boolean(true)
      .end_object();
  CHECK(out == R"({"a":[1,null,{}],"b\"":"x\ny","c":0.1,"d":null,"e":[1],"f":true})");
  CHECK(json::quoted("a/\x7f\x1f\\ď") == "\"a/\x7f\\u001f\\\\ď\"");
}

TEST_CASE("Python's dumps", "[json]") {
  // As printed by CPython's json.dumps(json.loads(text), ensure_ascii=False).
  CHECK(python("1e2") == "100.0");
  CHECK(python("-0") == "0");
  CHECK(python("-0.0") == "-0.0");
  CHECK(python("1e16") == "1e+16");
  CHECK(python("1e15") == "1000000000000000.0");
  CHECK(python("123456789012345680.0") == "1.2345678901234568e+17");
  CHECK(python("0.0001") == "0.0001");
  CHECK(python("0.00001") == "1e-05");
  CHECK(python("1.5e-7") == "1.5e-07");
  CHECK(python("1e400") == "Infinity");
  CHECK(python("1e-400") == "0.0");
  CHECK(python("3.14") == "3.14");
  CHECK(python("5e-324") == "5e-324");
  CHECK(python("1.7976931348623157e308") == "1.7976931348623157e+308");
  CHECK(python("18446744073709551616") == "18446744073709551616");
  CHECK(python(R"({"b":1,"a":[1,2,{}],"b":{"z":null,"y":[]}})") == R"({"b": {"z": null, "y": []}, "a": [1, 2, {}]})");
  const json::PythonStyle sorted{true, ",", ":"};
  CHECK(python("{\"😀\":1,\"\uffee\":2,\"b\":{\"d\":1,\"c\":2},\"a\":[{\"y\":1,\"x\":2}]}", sorted) ==
        "{\"a\":[{\"x\":2,\"y\":1}],\"b\":{\"c\":2,\"d\":1},\"\uffee\":2,\"😀\":1}");
}
