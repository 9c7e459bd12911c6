// Which slot holds which expert, and which one goes next: a state machine without I/O.
//
//   Free ──take──► Loading ──loaded──► Ready ◄──pin/unpin──► Pinned
//     ▲                │ (pinned while loading: straight to Pinned)
//     └──failed────────┘
//
// A pin during Loading is a wait. Giving it up parks the slot: the kernel still writes into it, so it stays Loading until its
// completion.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "model/experts/expert_stream.hpp"

namespace k3::experts {

class SlotPool {
 public:
  enum class State : std::uint8_t { free, loading, ready, pinned };
  // A wish makes do with what nobody needs; a demand takes, at worst, a Ready slot somebody wished for. A guess is a wish of which
  // nobody is sure.
  enum class Urgency { guess, wish, demand };

  // Layers and experts count from zero here: `key.layer - first_layer` must be below `layers`.
  SlotPool(std::size_t slots, std::uint32_t first_layer, std::uint32_t layers, std::uint32_t experts);

  std::size_t size() const { return slots_.size(); }
  State state(std::size_t slot) const { return slots_[slot].state; }
  ExpertKey key(std::size_t slot) const { return slots_[slot].key; }  // unless Free
  std::uint32_t pins(std::size_t slot) const { return slots_[slot].pins; }
  bool parked(std::size_t slot) const { return slots_[slot].parked; }
  std::optional<std::size_t> find(ExpertKey key) const;  // Loading, Ready or Pinned

  // A slot for `key`, which has none: Loading from now on. None: all that remain are Loading, Pinned or (but for a demand) wished
  // for or guessed.
  std::optional<std::size_t> take(ExpertKey key, Urgency urgency);
  void loaded(std::size_t slot);  // Loading -> Pinned or Ready
  void failed(std::size_t slot);  // Loading -> Free; its pins are void
  void pin(std::size_t slot);     // Loading, Ready or Pinned; the most recent of its layer from now on
  void unpin(std::size_t slot);   // the last one of a Loading slot parks it

  // In the order they will be wanted; replaces the previous list, and is the end of all guesses. A key stays wished for until it is
  // consumed. `worth` [keys]: what each is to the step that wishes for it, from 0 up; empty: 1 each.
  void set_wishes(std::span<const ExpertKey> keys, std::span<const float> worth = {});
  void consume(ExpertKey key) { wish_of_[index(key)] = 0; }
  std::optional<ExpertKey> next_wish();  // the first that has no slot

  // The likeliest first; replaces the previous list. A key that is taken is never the next again, and no guess takes the slot of
  // another that is in memory already.
  void set_guesses(std::span<const ExpertKey> keys);
  std::optional<ExpertKey> next_guess();  // the first that has no slot

 private:
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};
  struct Slot {
    ExpertKey key;
    State state = State::free;
    bool parked = false;
    bool guessed = false;  // and nobody has wished for anything since
    std::uint32_t pins = 0;
    std::uint64_t used = 0;  // stamp of the last take or pin
  };

  std::size_t index(ExpertKey key) const { return std::size_t{key.layer - first_layer_} * experts_ + key.expert; }
  std::uint32_t wish(std::size_t slot) const { return wish_of_[index(slots_[slot].key)]; }
  bool colder(std::uint32_t slot, std::uint32_t than) const;
  void warm(ExpertKey key, float worth);
  std::uint32_t coldest_of_layer(std::uint32_t layer, Urgency urgency) const;
  std::uint32_t unneeded(std::uint32_t for_layer, Urgency urgency) const;
  std::uint32_t wished_last() const;
  void vacate(std::size_t slot);

  std::uint32_t first_layer_, experts_;
  std::vector<Slot> slots_;
  std::vector<std::uint32_t> free_;               // a stack, lowest slot on top at first
  std::vector<std::vector<std::uint32_t>> held_;  // [layers]: slots of each
  std::vector<std::uint32_t> slot_of_;            // [layers][experts], kNone: in no slot
  std::vector<std::uint32_t> wish_of_;            // [layers][experts], 0: not wished for, else its place in the list, from 1
  std::vector<ExpertKey> wishes_;
  std::size_t first_wish_ = 0;  // all before it are consumed
  std::vector<ExpertKey> guesses_;
  std::size_t first_guess_ = 0;           // all before it have been taken
  std::vector<std::uint32_t> guessed_;    // slots marked so
  std::vector<bool> likely_;              // [layers][experts]: in guesses_
  std::vector<double> warmth_;            // [layers][experts]: see warm()
  std::vector<std::uint64_t> layer_age_;  // [layers]: steps that wished for something there
  std::uint64_t clock_ = 0;
};

}  // namespace k3::experts
