#include "model/grammar/frames.hpp"

#include <algorithm>

namespace k3::grammar {

Frames::Frames(const Program& program, std::size_t longest) : program_(program), longest_(longest) { frames_.push_back({}); }

// One token adds at most `longest_` to a count. Where neither bound of the loop can be met within it, all counts allow the same
// tokens, so the smallest such count stands for them: without this each character of a string with a length would need a mask of
// its own.
std::uint32_t Frames::typical_count(const Loop& loop, std::uint32_t done) const {
  const std::uint64_t reach = done + longest_ + 2;
  if (reach < loop.min) return 0;
  const std::uint32_t enough = loop.min > 0 ? loop.min - 1 : 0;
  if (done >= enough && (loop.max == unbounded || reach < loop.max)) return enough;
  return done;
}

FrameId Frames::intern(Frame frame) {
  const std::uint64_t key = scatter((std::uint64_t{frame.below} << 32) | frame.site) ^ frame.done;
  const std::uint32_t last = map_.find(key);
  for (std::uint32_t id = last; id != IdMap::none; id = same_hash_[id]) {
    const Frame& other = frames_[id];
    if (other.below == frame.below && other.site == frame.site && other.done == frame.done) return id;
  }
  const auto id = static_cast<FrameId>(frames_.size());
  if (same_hash_.size() <= id) same_hash_.resize(std::max<std::size_t>(id + 1, same_hash_.size() * 2), IdMap::none);
  same_hash_[id] = last;
  frame.typical = id;
  frames_.push_back(frame);
  map_.set(key, id);
  return id;
}

FrameId Frames::push_return(FrameId below, Address to) {
  const Frame& under = frames_[below];
  const FrameId typical_below = under.typical;
  Frame frame{below, to, 0, under.depth + 1, add_far(program_.finish[to].symbols, under.finish)};
  const FrameId id = intern(frame);
  if (typical_below != below && frames_[id].typical == id) {
    const FrameId typical = push_return(typical_below, to);
    frames_[id].typical = typical;
  }
  return id;
}

FrameId Frames::push_count(FrameId below, std::uint32_t loop_index, std::uint32_t done) {
  const Loop& loop = program_.loops[loop_index];
  const std::uint32_t enough = loop.min > 0 ? loop.min - 1 : 0;
  if (loop.max == unbounded) done = std::min(done, enough);
  const Frame& under = frames_[below];
  const FrameId typical_below = under.typical;
  // The repetition under way is one of those that are needed.
  const std::uint32_t missing = done < enough ? enough - done : 0;
  const std::uint32_t rest = add_far(times_far(missing, program_.finish[loop.body].symbols), program_.finish[loop.after].symbols);
  const FrameId id = intern({below, loop_index | Frame::loop_bit, done, under.depth + 1, add_far(rest, under.finish)});
  const std::uint32_t typical_done = typical_count(loop, done);
  if ((typical_below != below || typical_done != done) && frames_[id].typical == id) {
    const FrameId typical = push_count(typical_below, loop_index, typical_done);
    frames_[id].typical = typical;
  }
  return id;
}

}  // namespace k3::grammar
