// A compiled grammar: what a Matcher runs. Immutable, may be shared among threads.
#pragma once

#include <cstddef>
#include <memory>

#include "model/error.hpp"
#include "model/grammar/expression.hpp"

namespace k3::grammar {

struct Program;

struct Limits {
  std::size_t instructions = std::size_t{1} << 21;  // about one a byte of literal text; 16 bytes each
  std::size_t control_tokens = 64;                  // different ones
  std::size_t nesting = 1000;                       // of expressions within one rule
  // Calls and counted repetitions open at once while matching; text that would need more is not allowed, so that recursion ends.
  // A JSON value inside another takes two as a rule.
  std::uint32_t depth = 128;
};

class Grammar {
 public:
  explicit Grammar(std::unique_ptr<const Program> program);
  ~Grammar();
  Grammar(const Grammar&) = delete;
  Grammar& operator=(const Grammar&) = delete;

  const Program& program() const { return *program_; }

 private:
  std::unique_ptr<const Program> program_;
};

// `rules` and `root` may be forgotten afterwards. Time and memory are proportional to what was written (times a logarithm). Errors,
// all invalid_argument: a limit exceeded, an index without a rule, a rule that calls itself before anything is written, a counted
// repetition of something that may be empty, a root that can never end.
Result<std::shared_ptr<const Grammar>> compile(const Rules& rules, const Expression& root, const Limits& limits = {});

}  // namespace k3::grammar
