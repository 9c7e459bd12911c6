// The other direction of safetensors.hpp: a header for tensors that are to be written.
#pragma once

#include <span>
#include <string>
#include <utility>

#include "model/checkpoint/tensor_list.hpp"

namespace k3::checkpoint {

using Metadata = std::vector<std::pair<std::string, std::string>>;

// All that comes before the data: the length in 8 bytes, then the JSON, whose tensors lie one after the other in the order given,
// then spaces until the data starts on a multiple of `alignment`. Metadata that is empty is left out.
std::string header_text(std::span<const ExpectedTensor> tensors, const Metadata& metadata, std::size_t alignment);

}  // namespace k3::checkpoint
