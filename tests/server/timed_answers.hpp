// Answers by a clock that a test moves, and the events they come in.
#pragma once

#include "tests/catch.hpp"
#include "tests/server/harness.hpp"

namespace k3::test {

inline server::ServerOptions timed(const TestClock& clock) {
  server::ServerOptions options;
  options.clock = clock.source();
  return options;
}

inline std::string post_text(std::string_view extra = "", bool stream = true) {
  std::string body = R"({"prompt":"x","max_tokens":100)";
  if (stream) body += R"(,"stream":true)";
  if (!extra.empty()) body += "," + std::string(extra);
  return request("POST", "/v1/completions", body + "}");
}

inline json::Value event(const std::string& chunk) {
  INFO(chunk);
  REQUIRE(chunk.starts_with("data: "));
  REQUIRE(chunk.ends_with("\n\n"));
  return json::parse(std::string_view(chunk).substr(6, chunk.size() - 8)).value();
}

}  // namespace k3::test
