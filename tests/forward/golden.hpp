// The float64 vectors of tests/data/tiny.
#pragma once

#include <cmath>
#include <fstream>
#include <iterator>
#include <span>
#include <string>
#include <vector>

#include "model/text/json.hpp"

namespace k3::test {

inline std::vector<float> read_floats(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(file)), {});
  std::vector<float> values(bytes.size() / sizeof(float));
  std::copy(bytes.begin(), bytes.end(), reinterpret_cast<char*>(values.data()));
  return values;
}

struct Golden {
  std::vector<std::int32_t> tokens, greedy;
  std::vector<float> logits, hidden;
};

inline Golden golden() {
  std::ifstream file(K3_TEST_DATA "/tiny/golden.json");
  const std::string text((std::istreambuf_iterator<char>(file)), {});
  const json::Value root = json::parse(text).value();
  Golden golden;
  for (const auto& id : root.find("tokens")->items) golden.tokens.push_back(static_cast<std::int32_t>(id.as_int().value()));
  for (const auto& id : root.find("greedy")->items) golden.greedy.push_back(static_cast<std::int32_t>(id.as_int().value()));
  golden.logits = read_floats(K3_TEST_DATA "/tiny/logits.f32");
  golden.hidden = read_floats(K3_TEST_DATA "/tiny/hidden.f32");
  return golden;
}

// |got - want| / |want|, in double.
inline double relative_l2(std::span<const float> got, std::span<const float> want) {
  double difference = 0, norm = 0;
  for (std::size_t i = 0; i < want.size(); ++i) {
    difference += (double{got[i]} - want[i]) * (double{got[i]} - want[i]);
    norm += double{want[i]} * want[i];
  }
  return std::sqrt(difference / norm);
}

}  // namespace k3::test
