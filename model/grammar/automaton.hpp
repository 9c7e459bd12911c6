// Sets of strings as deterministic automata over characters, where they have to be intersected, excluded from one another, or found
// empty.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "model/grammar/characters.hpp"

namespace k3::grammar {

// What may still be spent on automata, of all patterns of a schema together. Functions that run out return nothing.
struct AutomatonBudget {
  std::size_t states = 32'000;
  std::size_t work = 4'000'000;  // members of state sets looked at
  bool take(std::size_t& pool, std::size_t amount) const {
    if (pool < amount) return false;
    pool -= amount;
    return true;
  }
  bool take_state() { return take(states, 1); }
  bool take_work(std::size_t amount) { return take(work, amount); }
};

class Automaton {
 public:
  struct Edge {
    char32_t first, last;
    std::uint32_t to;
  };
  struct State {
    std::vector<Edge> edges;  // ascending, disjoint; other characters lead nowhere
    bool accepts = false;
  };

  static Automaton all_strings();
  static Automaton of(std::vector<State> states);  // state 0 begins
  static Automaton of_literals(std::span<const std::u32string> literals);

  // Strings in both; strings in this and not in `other`; strings of `min` to `max` characters.
  std::optional<Automaton> both(const Automaton& other, AutomatonBudget& budget) const;
  std::optional<Automaton> without(const Automaton& other, AutomatonBudget& budget) const;
  std::optional<Automaton> of_length(std::uint32_t min, std::uint32_t max, AutomatonBudget& budget) const;

  bool empty() const;
  bool accepts(std::u32string_view text) const;
  bool is_all() const;  // known to be all strings; false may be wrong
  const std::vector<State>& states() const { return states_; }

  // What stands between the quotes of a JSON string; one rule a state.
  Expression content(Rules& rules, Spelling spelling) const;

 private:
  std::optional<Automaton> product(const Automaton& other, bool excluding, AutomatonBudget& budget) const;
  void drop_dead_ends();

  std::vector<State> states_;  // each leads to acceptance; at least the first is there
};

}  // namespace k3::grammar
