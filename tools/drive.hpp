// How fast the drive gives up a model's own bytes.
#pragma once

#include <span>
#include <string>

#include "model/checkpoint/checkpoint.hpp"

namespace k3::cli {

struct DriveSpeed {
  double gigabytes_per_second = 0;
  double gigabytes_read = 0;
  bool direct = true;  // past the page cache; without that the number says nothing of the drive
};

// Reads blocks spread over the files, several at a time, for about `seconds`, with O_DIRECT where the file system allows it.
Result<DriveSpeed> measure_drive(std::span<const checkpoint::File> files, double seconds);

// Bytes a second that `threads` threads read from memory together.
double measure_memory(unsigned threads);

}  // namespace k3::cli
