// A function's parameters, each alone.
#include "tests/catch.hpp"
#include "tests/grammar/fixture.hpp"

using namespace k3;
using namespace k3::grammar;

namespace {

SchemaResult<std::vector<Argument>> arguments(std::string_view schema) {
  Rules rules;
  return arguments_from_json_schema(test::parsed(schema), rules);
}

std::string types_of(const Argument& argument) {
  std::string out;
  for (const auto& [type, values] : argument.values) out += (out.empty() ? "" : " ") + std::string(type);
  return out;
}

}  // namespace

TEST_CASE("an argument's types are those that all that is said of it leaves", "[grammar]") {
  const std::string_view schema = R"({"type":"object","properties":{"a":{"type":["integer","string"]},"b":{"$ref":"#/$defs/b"},
      "c":{"allOf":[{"type":"integer"},{"minimum":3}]},"d":{"anyOf":[{"type":"null"},{"$ref":"#/$defs/b"}]}},
      "allOf":[{"required":["a"]},{"properties":{"a":{"type":["integer","null"]}}}],"$defs":{"b":{"type":"boolean"}}})";
  const auto found = arguments(schema);
  REQUIRE(found.has_value());
  REQUIRE(found->size() == 4);
  CHECK((*found)[0].required);
  CHECK(types_of((*found)[0]) == "number");
  CHECK(types_of((*found)[1]) == "boolean");
  CHECK(types_of((*found)[2]) == "number");
  CHECK(types_of((*found)[3]) == "boolean null");
}

TEST_CASE("what ties parameters to each other is refused by name and pointer", "[grammar]") {
  for (const std::string keyword : {R"("anyOf":[{"required":["a"]}])", R"("oneOf":[{"required":["a"]}])", R"("minProperties":1)",
                                    R"("maxProperties":3)", R"("patternProperties":{"^x":{}})"}) {
    const auto found = arguments(R"({"type":"object","properties":{"a":{"type":"null"}},)" + keyword + "}");
    INFO(keyword);
    REQUIRE(found.has_error());
    const std::string name = keyword.substr(1, keyword.find('"', 1) - 1);
    CHECK(found.error().path == "/" + name);
    CHECK(found.error().message.starts_with(name + " is not supported at the top"));
  }
}
