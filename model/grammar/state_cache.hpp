// The states of a matcher, worked out as they are met. A state is the set of places in the grammar where the text so far can have
// led; each set has a number, and where a symbol leads is remembered.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "model/grammar/frames.hpp"
#include "model/grammar/grammar.hpp"
#include "model/grammar/token_trie.hpp"

namespace k3::grammar {

using StateId = std::uint32_t;

// One place: an instruction that writes a symbol, or the end, with the stack it is reached by.
struct Thread {
  Address at;
  FrameId frame;
  friend auto operator<=>(const Thread&, const Thread&) = default;
};

// Which threads a closure has been to. Emptied at no cost, since that happens for every step.
class SeenThreads {
 public:
  // False if it was there.
  bool insert(const Thread& thread);
  void clear();
  std::size_t size() const { return size_; }

 private:
  struct Slot {
    std::uint64_t key = 0;
    std::uint64_t epoch = 0;  // the closure that wrote it
  };
  void grow();

  std::vector<Slot> slots_ = std::vector<Slot>(64);
  std::uint64_t epoch_ = 1;
  std::size_t size_ = 0;
};

class StateCache {
 public:
  static constexpr StateId dead = 0;

  // `memory`: bytes from which on full() is true.
  StateCache(std::shared_ptr<const Grammar> grammar, std::size_t longest_token, std::size_t memory);

  StateId start();
  // Where `symbol` leads; dead if nowhere.
  StateId next(StateId state, Symbol symbol) {
    const State& s = states_[state];
    if (symbol < first_token && !s.bytes.test(symbol)) return dead;
    const std::uint32_t known = s.row != no_row ? rows_[s.row + symbol] : edges_.find(edge_key(state, symbol));
    return known != IdMap::none ? known : work_out(state, symbol);
  }
  // For walks: where the answers of next() for `state` stand, and the one for a byte; unknown_next where next() must be asked.
  static constexpr std::uint32_t no_row = IdMap::none, unknown_next = IdMap::none;
  std::uint32_t row_of(StateId state) const { return states_[state].row; }
  StateId known_next(std::uint32_t row, std::uint8_t byte) const { return rows_[row + byte]; }

  bool complete(StateId state) const { return states_[state].complete; }
  std::uint32_t finish(StateId state) const { return states_[state].finish; }
  // A state that allows the same tokens and stands for many.
  StateId typical(StateId state);

  // The same state in another cache of the same grammar.
  StateId copy_to(StateCache& other, StateId state) const;

  bool full() const { return bytes_used() > memory_; }
  std::size_t memory() const { return memory_; }

  // Masks by state and purpose; null if not there. At most `kept_masks` are kept, the oldest goes first.
  enum class Purpose { any, towards_end };
  static constexpr std::size_t kept_masks = 128;
  const std::vector<std::uint64_t>* mask(StateId state, Purpose purpose) const;
  std::vector<std::uint64_t>& new_mask(StateId state, Purpose purpose);

 private:
  // Alternatives open at once. Each can end by itself, so those beyond it can be left out without harm to the others.
  static constexpr std::size_t most_threads = std::size_t{1} << 16;

  struct State {
    // Into threads_: bytes in their order, then control tokens, then the end, and from `sets` to `last` what writes one byte of a
    // set.
    std::uint32_t first = 0, sets = 0, last = 0;
    std::uint32_t row = no_row;  // into rows_, if many bytes are possible
    std::uint32_t finish = Finish::never;
    StateId typical = dead;  // dead: not looked for yet
    bool complete = false;
    ByteSet bytes;
  };
  struct Mask {
    StateId state = dead;
    Purpose purpose = Purpose::any;
    std::vector<std::uint64_t> bits;
  };

  struct Found {
    std::uint64_t order;  // see State::first
    Thread thread;
    friend auto operator<=>(const Found&, const Found&) = default;
  };

  static constexpr std::uint64_t end_order = std::uint64_t{1} << 40, set_order = end_order + 1;

  static std::uint64_t edge_key(StateId state, Symbol symbol) { return (std::uint64_t{state} << 32) | symbol; }
  std::uint64_t order_of(Address at) const;
  std::span<const Thread> threads(StateId state) const;
  StateId work_out(StateId state, Symbol symbol);
  void add(Address at, FrameId frame);
  void find(const Thread& thread) { found_.push_back({order_of(thread.at), thread}); }
  void advance(const Thread& thread);
  StateId close();
  void sort_found();
  void expand(const Thread& thread);
  void call(const Thread& thread, Address to);
  void count(const Thread& thread, std::uint32_t loop);
  void again(const Thread& thread);
  StateId intern();
  StateId make_state();
  std::size_t bytes_used() const;

  std::shared_ptr<const Grammar> grammar_;
  const Program& program_;
  const std::size_t memory_;
  Frames frames_;
  std::vector<State> states_;
  std::vector<Thread> threads_;
  std::vector<std::uint32_t> rows_;  // [row][symbol]: the state it leads to, none where not worked out
  IdMap edges_;                      // the same for states without a row
  IdMap by_hash_;                    // to the last state with that hash of threads
  std::vector<StateId> same_hash_;   // [state], the state before with that hash
  std::vector<Mask> masks_;
  std::size_t oldest_mask_ = 0;

  // Of the state being worked out.
  std::vector<Thread> pending_;  // reached, not looked at
  std::vector<Found> found_;     // places that write, or the end
  std::vector<Found> sorted_;    // room for them while they are sorted
  SeenThreads seen_;
};

}  // namespace k3::grammar
