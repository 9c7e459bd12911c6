// Whether the experts of the next layer are guessed while those of this one are read.
#pragma once

#include <cstdint>

namespace k3 {

enum class PredictionMode : std::uint8_t {
  off,
  metered,  // guessed and counted, but not read
  on,       // read, while the drive has nothing else to do
};

}  // namespace k3
