// Every case of the reference template: request in, exactly its segments out.
#include <fstream>
#include <sstream>

#include "model/text/chat_format.hpp"
#include "tests/catch.hpp"

namespace {

using namespace k3;
using text::Segment;

std::string slurp(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

// The cases give thinking and effort to the template; a request carries them in chat_template_kwargs.
json::Value request_of(const json::Value& example) {
  json::Value request;
  request.kind = json::Value::Kind::object;
  json::Value kwargs;
  kwargs.kind = json::Value::Kind::object;
  for (const json::Member& member : example.members) {
    if (member.key == "thinking" || member.key == "thinking_effort") {
      kwargs.members.push_back(member);
    } else if (member.key != "segments" && member.key != "name") {
      request.members.push_back(member);
    }
  }
  if (!kwargs.members.empty()) request.members.push_back({"chat_template_kwargs", kwargs});
  return request;
}

std::vector<Segment> segments_of(const json::Value& list) {
  std::vector<Segment> result;
  for (const json::Value& pair : list.items) result.push_back({pair.items.at(0).text, pair.items.at(1).boolean});
  return result;
}

}  // namespace

TEST_CASE("every golden request renders exactly", "[chat]") {
  const json::Value document = json::parse(slurp(K3_TEST_DATA "/xtml_cases.json")).value();
  const auto& cases = document.find("cases")->items;
  REQUIRE(cases.size() == 55);
  for (const json::Value& example : cases) {
    INFO(example.find("name")->text);
    const auto request = text::read_chat_request(request_of(example));
    REQUIRE(request.has_value());
    const auto segments = text::render(*request);
    REQUIRE(segments.has_value());
    const std::vector<Segment> expected = segments_of(*example.find("segments"));
    CHECK(segments->size() == expected.size());
    for (std::size_t i = 0; i < std::min(segments->size(), expected.size()); ++i) {
      INFO(i);
      REQUIRE((*segments)[i].text == expected[i].text);
      REQUIRE((*segments)[i].allow_special == expected[i].allow_special);
    }
  }
}
