// config.json: whatever the bytes, an answer; an accepted config is one whose sizes can be computed with.
#include "model/checkpoint/config.hpp"

#include <cstdlib>
#include <string_view>

#include "model/checkpoint/tensor_list.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto config = k3::checkpoint::parse_config({reinterpret_cast<const char*>(data), size}, "fuzz");
  if (!config) return 0;
  if (config->is_kda.size() != config->layers || config->experts_per_token > config->experts) std::abort();
  // 2^63: no product of accepted widths comes near the end of 64 bits.
  const auto check = [](const k3::checkpoint::ExpectedTensor& tensor) {
    if (tensor.bytes() == 0 || tensor.bytes() >> 63 != 0) std::abort();
  };
  for (const auto& tensor : k3::checkpoint::expected_globals(*config)) check(tensor);
  for (const auto& tensor : k3::checkpoint::expected_expert(*config)) check(tensor);
  check(k3::checkpoint::expected_layer(*config, 0).front());
  return 0;
}
