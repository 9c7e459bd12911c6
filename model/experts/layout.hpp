// Where every routed expert lies, boiled down to what reading needs. Tests lay out files of their own with it.
#pragma once

#include <array>
#include <vector>

#include "model/checkpoint/checkpoint.hpp"
#include "model/experts/expert_stream.hpp"

namespace k3::experts {

// One tensor of an expert. 16 bytes, so that the 6 x 896 x 92 of the released model take 8 MB.
struct Piece {
  std::uint64_t offset = 0;  // bytes from the start of the file
  std::uint32_t bytes = 0;
  std::uint32_t file = 0;  // index into Layout::files
};

// In the order of checkpoint::ExpertLocation: w1, w2, w3, packed before scale.
using Pieces = std::array<Piece, 6>;

struct Layout {
  std::vector<checkpoint::File> files;
  std::uint32_t first_layer = 0;  // dense layers come before it
  std::uint32_t layers = 0, experts = 0;
  std::vector<Pieces> places;  // [layers][experts]

  bool contains(ExpertKey key) const {
    return key.layer >= first_layer && key.layer - first_layer < layers && key.expert < experts;
  }
  std::size_t index(ExpertKey key) const { return std::size_t{key.layer - first_layer} * experts + key.expert; }
};

Layout layout_of(const checkpoint::Checkpoint& checkpoint);

}  // namespace k3::experts
