// The stacks of a matcher: frames that are shared, immutable and interned, so that equal stacks have equal numbers.
#pragma once

#include <vector>

#include "model/grammar/id_map.hpp"
#include "model/grammar/program.hpp"

namespace k3::grammar {

using FrameId = std::uint32_t;

// A frame either returns (`site` is an address) or counts (`site` is loop_bit with the place of a loop).
struct Frame {
  static constexpr std::uint32_t loop_bit = 1U << 31;

  FrameId below = 0;
  std::uint32_t site = 0;
  std::uint32_t done = 0;    // repetitions that have ended, as far as they still matter
  std::uint32_t depth = 0;   // frames from here down
  std::uint32_t finish = 0;  // symbols needed at least from where this frame is left to the end of everything
  FrameId typical = 0;       // the frame that stands for this one in masks; see typical_count()

  bool counts() const { return (site & loop_bit) != 0; }
  std::uint32_t loop() const { return site & ~loop_bit; }
};

class Frames {
 public:
  static constexpr FrameId bottom = 0;

  // `longest`: bytes of the longest token.
  Frames(const Program& program, std::size_t longest);

  // Both keep the interned frame if there is one. A count that can no longer matter is kept at the loop's minimum.
  FrameId push_return(FrameId below, Address to);
  FrameId push_count(FrameId below, std::uint32_t loop, std::uint32_t done);

  const Frame& operator[](FrameId id) const { return frames_[id]; }
  std::size_t bytes() const { return frames_.size() * sizeof(Frame) + map_.bytes(); }

 private:
  FrameId intern(Frame frame);
  std::uint32_t typical_count(const Loop& loop, std::uint32_t done) const;

  const Program& program_;
  const std::uint64_t longest_;
  std::vector<Frame> frames_;
  IdMap map_;                       // hash of a frame's first three fields to the last frame that has it
  std::vector<FrameId> same_hash_;  // [frame], the frame before with that hash
};

}  // namespace k3::grammar
