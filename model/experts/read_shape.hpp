// How large one read of an expert is and how many are under way: whichever the drive below does best.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "model/checkpoint/checkpoint.hpp"

namespace k3::experts {

struct ReadShape {
  unsigned depth = 32;      // reads in flight, at most
  std::uint64_t bytes = 0;  // of one, at most; a multiple of 4096. 0: tensors that lie together are one read
  friend bool operator==(const ReadShape&, const ReadShape&) = default;
};

// "whole, up to 32 at a time", "4 MB at a time, up to 8"
std::string describe(const ReadShape& shape);

// Bytes a second of a short turn in that shape.
using MeasureShape = std::function<Result<double>(const ReadShape& shape)>;

// Several turns each, one after the other. An expert in one read is the plain way: it is left only for a shape whose slowest turn
// was faster than the plain one's fastest, because a drive's speed wanders by more than shapes differ. A turn that fails ends it
// with the plain shape: what is wrong will be said, with the file's name, by the read that needs it.
ReadShape choose_read_shape(const MeasureShape& measure);

// On the files of `checkpoint`, for about a second, with at most `memory` bytes to read into (more than an expert is never needed).
ReadShape measure_read_shape(const checkpoint::Checkpoint& checkpoint, std::uint64_t memory);

}  // namespace k3::experts
