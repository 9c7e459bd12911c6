// Walks through every schema: whatever is written is JSON and valid.
#include <cstdlib>
#include <fstream>

#include "tests/catch.hpp"
#include "tests/grammar/fixture.hpp"

using namespace k3;
using namespace k3::grammar;

TEST_CASE("whatever tokens are taken, a finished document is valid JSON, UTF-8 and valid against the schema", "[grammar]") {
  for (const std::string& text : test::schemas()) {
    const auto grammar = test::grammar_of(text);
    const json::Value schema = test::parsed(text);
    for (std::uint64_t seed = 0; seed < 25; ++seed) {
      const auto document = test::walk(grammar, seed, static_cast<int>(seed * 3));
      INFO(text << " seed " << seed);
      REQUIRE(document.has_value());
      INFO(*document);
      json::ParseOptions limits;
      limits.max_depth = 512;
      const auto value = json::parse(*document, limits);
      REQUIRE(value.has_value());
      REQUIRE(test::valid(*value, schema, schema));
      REQUIRE(test::matches(grammar, *document));
    }
  }
}

// For tests/clients/grammar.mjs: one JSON array of schema and document a line, to the file that K3_GRAMMAR_DOCUMENTS names.
TEST_CASE("documents for other validators", "[.documents]") {
  const char* path = std::getenv("K3_GRAMMAR_DOCUMENTS");
  REQUIRE(path != nullptr);
  std::ofstream out(path);
  for (const std::string& text : test::schemas()) {
    const auto grammar = test::grammar_of(text);
    std::string schema;
    json::Writer(schema).value(test::parsed(text));
    for (std::uint64_t seed = 0; seed < 60; ++seed) {
      const auto document = test::walk(grammar, seed, static_cast<int>(seed * 2));
      REQUIRE(document.has_value());
      out << "[" << schema << "," << json::quoted(*document) << "]\n";
    }
  }
}
