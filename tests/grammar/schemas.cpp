#include <fstream>
#include <sstream>

#include "tests/grammar/fixture.hpp"

namespace k3::grammar::test {
namespace {

json::Value from_file(const std::string& name) {
  std::ostringstream text;
  text << std::ifstream(K3_TEST_DATA "/" + name).rdbuf();
  return parsed(text.str());
}

std::string written(const json::Value& schema) {
  std::string text;
  json::Writer(text).value(schema);
  return text;
}

}  // namespace

const std::vector<std::string>& schemas() {
  static const std::vector<std::string> all = [] {
    std::vector<std::string> out;
    for (const json::Member& group : from_file("schemas.json").members) {
      for (const json::Value& schema : group.value.items) out.push_back(written(schema));
    }
    return out;
  }();
  return all;
}

const std::vector<Refused>& refused_schemas() {
  static const std::vector<Refused> all = [] {
    std::vector<Refused> out;
    for (const json::Member& group : from_file("refused_schemas.json").members) {
      for (const json::Value& pair : group.value.items)
        out.push_back({group.key, pair.items.at(0).text, written(pair.items.at(1))});
    }
    return out;
  }();
  return all;
}

}  // namespace k3::grammar::test
