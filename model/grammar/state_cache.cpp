#include "model/grammar/state_cache.hpp"

#include <algorithm>
#include <utility>

namespace k3::grammar {

bool SeenThreads::insert(const Thread& thread) {
  if (size_ * 2 >= slots_.size()) grow();
  const std::uint64_t key = (std::uint64_t{thread.at} << 32) | thread.frame, mask = slots_.size() - 1;
  std::size_t i = scatter(key) & mask;
  for (; slots_[i].epoch == epoch_; i = (i + 1) & mask) {
    if (slots_[i].key == key) return false;
  }
  slots_[i] = {key, epoch_};
  ++size_;
  return true;
}

void SeenThreads::grow() {
  std::vector<Slot> old(slots_.size() * 4);
  old.swap(slots_);
  for (const Slot& slot : old) {
    if (slot.epoch != epoch_) continue;
    std::size_t i = scatter(slot.key) & (slots_.size() - 1);
    while (slots_[i].epoch == epoch_) i = (i + 1) & (slots_.size() - 1);
    slots_[i] = slot;
  }
}

void SeenThreads::clear() {
  ++epoch_;
  size_ = 0;
}

StateCache::StateCache(std::shared_ptr<const Grammar> grammar, std::size_t longest_token, std::size_t memory)
    : grammar_(std::move(grammar)), program_(grammar_->program()), memory_(memory), frames_(program_, longest_token) {
  intern();  // the dead state: no threads
}

StateId StateCache::start() {
  add(program_.root(), Frames::bottom);
  return close();
}

// Order among the threads of a state: by symbol, then the end, then sets.
std::uint64_t StateCache::order_of(Address at) const {
  const Instruction& i = program_.code[at];
  if (i.op == Op::symbol) return i.a;
  return i.op == Op::end ? end_order : set_order;
}

std::span<const Thread> StateCache::threads(StateId state) const {
  const State& s = states_[state];
  return std::span(threads_).subspan(s.first, s.last - s.first);
}

StateId StateCache::work_out(StateId state, Symbol symbol) {
  const State& s = states_[state];
  const auto begin = threads_.begin() + s.first, sets = threads_.begin() + s.sets, end = threads_.begin() + s.last;
  const auto before = [&](const Thread& thread, Symbol wanted) { return order_of(thread.at) < wanted; };
  for (auto i = std::lower_bound(begin, sets, symbol, before); i != sets && order_of(i->at) == symbol; ++i)
    add(i->at + 1, i->frame);
  if (symbol < first_token) {
    for (auto i = sets; i != end; ++i) {
      if (program_.sets[program_.code[i->at].a].test(symbol)) advance(*i);
    }
  }
  const StateId to = close();
  const State& from = states_[state];  // states may have moved
  if (from.row != no_row) {
    rows_[from.row + symbol] = to;
  } else {
    edges_.insert(edge_key(state, symbol), to);
  }
  return to;
}

// Past what it wrote. Where the next instruction writes too, which is most of the time, there is nothing to look for.
void StateCache::advance(const Thread& thread) {
  const Op next = program_.code[thread.at + 1].op;
  if (next == Op::symbol || next == Op::set) {
    find({thread.at + 1, thread.frame});
  } else {
    add(thread.at + 1, thread.frame);
  }
}

// What could not end any more, or only with more frames than may be open, is not entered. Whatever is entered can therefore end.
void StateCache::add(Address at, FrameId frame) {
  const Finish& finish = program_.finish[at];
  if (finish.symbols == Finish::never || frames_[frame].depth + finish.height > program_.depth) return;
  if (seen_.size() >= 4 * most_threads || !seen_.insert({at, frame})) return;
  pending_.push_back({at, frame});
}

StateId StateCache::close() {
  // In the order in which they were reached, which is nearly that of addresses.
  for (std::size_t i = 0; i < pending_.size(); ++i) expand(Thread(pending_[i]));
  pending_.clear();
  seen_.clear();
  sort_found();
  found_.erase(std::unique(found_.begin(), found_.end()), found_.end());
  if (found_.size() > most_threads) found_.resize(most_threads);
  return intern();
}

// Thousands of threads, as an object of many members has, are found in the order of their addresses or against it, with the symbols
// mixed. So they are put in order symbol by symbol, which takes a look at each, and the few that are still not are sorted by
// comparing.
void StateCache::sort_found() {
  if (std::is_sorted(found_.begin(), found_.end())) return;
  const auto by_place = [](const Found& a, const Found& b) { return a.thread < b.thread; };
  if (found_.size() < 64 || program_.symbols() > found_.size()) return std::sort(found_.begin(), found_.end());
  if (std::is_sorted(found_.rbegin(), found_.rend(), by_place)) std::reverse(found_.begin(), found_.end());
  const Symbol symbols = program_.symbols();
  const auto bucket = [symbols](const Found& found) {
    return found.order < symbols ? static_cast<std::size_t>(found.order) : symbols + (found.order == set_order ? 1U : 0U);
  };
  std::vector<std::size_t> begins(symbols + 3, 0);
  for (const Found& found : found_) ++begins[bucket(found) + 1];
  for (std::size_t i = 1; i < begins.size(); ++i) begins[i] += begins[i - 1];
  sorted_.resize(found_.size());
  std::vector<std::size_t> next(begins.begin(), begins.end() - 1);
  for (const Found& found : found_) sorted_[next[bucket(found)]++] = found;
  found_.swap(sorted_);
  for (std::size_t i = 0; i + 1 < begins.size(); ++i) {
    const auto begin = found_.begin() + static_cast<std::ptrdiff_t>(begins[i]);
    const auto end = found_.begin() + static_cast<std::ptrdiff_t>(begins[i + 1]);
    if (!std::is_sorted(begin, end)) std::sort(begin, end);
  }
}

void StateCache::expand(const Thread& thread) {
  const Instruction& i = program_.code[thread.at];
  switch (i.op) {
    case Op::symbol:
    case Op::set:
      find(thread);
      break;
    case Op::split:
      for (std::uint32_t t = i.a; t < i.a + i.b; ++t) add(program_.targets[t], thread.frame);
      break;
    case Op::jump:
      add(i.a, thread.frame);
      break;
    case Op::call:
      call(thread, i.a);
      break;
    case Op::count:
      count(thread, i.a);
      break;
    case Op::again:
      again(thread);
      break;
    case Op::end:
      if (thread.frame == Frames::bottom) {
        find(thread);
      } else {
        add(frames_[thread.frame].site, frames_[thread.frame].below);
      }
      break;
  }
}

void StateCache::call(const Thread& thread, Address to) {
  // The way back must fit too: it was chosen for nothing else yet.
  const Finish& rest = program_.finish[thread.at + 1];
  if (rest.symbols == Finish::never || frames_[thread.frame].depth + rest.height > program_.depth) return;
  add(to, frames_.push_return(thread.frame, thread.at + 1));
}

void StateCache::count(const Thread& thread, std::uint32_t loop_index) {
  const Loop& loop = program_.loops[loop_index];
  if (loop.min == 0) add(loop.after, thread.frame);
  const Finish& rest = program_.finish[loop.after];
  if (rest.symbols == Finish::never || frames_[thread.frame].depth + rest.height > program_.depth) return;
  add(loop.body, frames_.push_count(thread.frame, loop_index, 0));
}

void StateCache::again(const Thread& thread) {
  const Frame frame = frames_[thread.frame];
  const Loop& loop = program_.loops[frame.loop()];
  const std::uint32_t done = frame.done + 1;
  if (done >= loop.min) add(loop.after, frame.below);
  if (done < loop.max) add(loop.body, frames_.push_count(frame.below, frame.loop(), done));
}

// found_, which is sorted, becomes a state, or is one already. Empties it.
StateId StateCache::intern() {
  std::uint64_t hash = found_.size();
  for (const Found& found : found_) hash = scatter(hash ^ ((std::uint64_t{found.thread.at} << 32) | found.thread.frame));
  const std::uint32_t last = by_hash_.find(hash);
  const auto same = [](const Thread& thread, const Found& found) { return thread == found.thread; };
  for (std::uint32_t id = last; id != IdMap::none; id = same_hash_[id]) {
    const auto known = threads(id);
    if (std::equal(known.begin(), known.end(), found_.begin(), found_.end(), same)) {
      found_.clear();
      return id;
    }
  }
  const StateId id = make_state();
  same_hash_.push_back(last);
  by_hash_.set(hash, id);
  return id;
}

StateId StateCache::make_state() {
  constexpr std::size_t few_bytes = 16;
  State state;
  state.first = static_cast<std::uint32_t>(threads_.size());
  state.sets = state.first;
  for (const Found& found : found_) {
    const Instruction& i = program_.code[found.thread.at];
    threads_.push_back(found.thread);
    if (i.op != Op::set) state.sets = static_cast<std::uint32_t>(threads_.size());
    if (i.op == Op::set) state.bytes |= program_.sets[i.a];
    if (i.op == Op::symbol && i.a < first_token) state.bytes.set(i.a);
    if (i.op == Op::end) state.complete = true;
    state.finish = std::min(state.finish, add_far(program_.finish[found.thread.at].symbols, frames_[found.thread.frame].finish));
  }
  state.last = static_cast<std::uint32_t>(threads_.size());
  if (state.bytes.count() > few_bytes) {
    state.row = static_cast<std::uint32_t>(rows_.size());
    for (Symbol symbol = 0; symbol < program_.symbols(); ++symbol) {
      rows_.push_back(symbol < first_token && !state.bytes.test(symbol) ? dead : IdMap::none);
    }
  }
  found_.clear();
  states_.push_back(state);
  return static_cast<StateId>(states_.size() - 1);
}

StateId StateCache::typical(StateId state) {
  if (states_[state].typical != dead) return states_[state].typical;
  bool differs = false;
  for (const Thread& thread : threads(state)) {
    const FrameId frame = frames_[thread.frame].typical;
    differs = differs || frame != thread.frame;
    find({thread.at, frame});
  }
  StateId typical = state;
  if (differs) {
    std::sort(found_.begin(), found_.end());
    found_.erase(std::unique(found_.begin(), found_.end()), found_.end());
    typical = intern();
  }
  found_.clear();
  states_[state].typical = typical;
  return typical;
}

StateId StateCache::copy_to(StateCache& other, StateId state) const {
  std::vector<FrameId> stack;
  for (const Thread& thread : threads(state)) {
    for (FrameId frame = thread.frame; frame != Frames::bottom; frame = frames_[frame].below) stack.push_back(frame);
    FrameId below = Frames::bottom;
    for (; !stack.empty(); stack.pop_back()) {
      const Frame& frame = frames_[stack.back()];
      below =
          frame.counts() ? other.frames_.push_count(below, frame.loop(), frame.done) : other.frames_.push_return(below, frame.site);
    }
    other.find({thread.at, below});
  }
  std::sort(other.found_.begin(), other.found_.end());
  return other.intern();
}

std::size_t StateCache::bytes_used() const {
  return states_.size() * (sizeof(State) + sizeof(StateId)) + threads_.size() * sizeof(Thread) + rows_.size() * sizeof(StateId) +
         edges_.bytes() + by_hash_.bytes() + frames_.bytes();
}

const std::vector<std::uint64_t>* StateCache::mask(StateId state, Purpose purpose) const {
  for (const Mask& mask : masks_) {
    if (mask.state == state && mask.purpose == purpose) return &mask.bits;
  }
  return nullptr;
}

std::vector<std::uint64_t>& StateCache::new_mask(StateId state, Purpose purpose) {
  if (masks_.size() < kept_masks) return masks_.emplace_back(Mask{state, purpose, {}}).bits;
  Mask& mask = masks_[oldest_mask_++ % kept_masks];
  mask.state = state;
  mask.purpose = purpose;
  return mask.bits;
}

}  // namespace k3::grammar
