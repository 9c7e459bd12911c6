// What a grammar is compiled to: instructions that write symbols, choose, call and count. Only this room looks inside.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "model/grammar/expression.hpp"

namespace k3::grammar {

using Address = std::uint32_t;

// A symbol is a byte, or first_token plus the place of a control token in Program::tokens.
using Symbol = std::uint32_t;
constexpr Symbol first_token = 256;

enum class Op : std::uint8_t {
  symbol,  // writes symbol `a`, then the next instruction
  set,     // writes a byte of sets[a], then the next instruction
  split,   // goes on at each of targets[a .. a + b)
  jump,    // goes on at `a`; a call with nothing after it is a jump, so that a rule may go on by calling itself for ever
  call,    // opens a frame that returns to the next instruction, goes on at `a`
  count,   // opens a frame of loops[a] and goes on at the loop's body, the next instruction; or passes it by if its minimum is 0
  again,   // the body of a counted loop has ended
  end      // the rule has ended
};

struct Instruction {
  Op op;
  std::uint32_t a = 0, b = 0;
};

struct Loop {
  std::uint32_t min, max;
  Address body, after;
};

// The cheapest way from an instruction to the end of what it stands in: of its rule, or of the body of its counted loop.
struct Finish {
  static constexpr std::uint32_t never = std::numeric_limits<std::uint32_t>::max();
  std::uint32_t symbols = never;
  std::uint32_t height = 0;  // frames that this way opens at once

  friend auto operator<=>(const Finish&, const Finish&) = default;
};

struct Program {
  std::vector<Instruction> code;
  std::vector<ByteSet> sets;
  std::vector<Address> targets;
  std::vector<Loop> loops;
  std::vector<TokenId> tokens;   // ascending
  std::vector<Address> entries;  // [rule], the root last; ascending
  std::vector<Finish> finish;    // [instruction]
  std::uint32_t depth = 0;       // frames open at once, at most

  Address root() const { return entries.back(); }
  std::uint32_t symbols() const { return first_token + static_cast<std::uint32_t>(tokens.size()); }
};

// Saturating: what is too far is as far as what never comes, minus one.
inline std::uint32_t add_far(std::uint64_t a, std::uint64_t b) {
  if (a == Finish::never || b == Finish::never) return Finish::never;
  return static_cast<std::uint32_t>(a + b < Finish::never ? a + b : Finish::never - 1);
}
inline std::uint32_t times_far(std::uint64_t times, std::uint64_t a) {
  if (times == 0) return 0;
  if (a == Finish::never) return Finish::never;
  return static_cast<std::uint32_t>(times * a < Finish::never ? times * a : Finish::never - 1);
}

// Fills Program::finish.
void find_finishes(Program& program);

// The address of an instruction that leads back to itself through a call before anything is written, or Finish::never if there is
// none. Needs the finishes.
Address find_left_recursion(const Program& program);

}  // namespace k3::grammar
