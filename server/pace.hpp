// How fast the model has been of late, and what follows for a prompt or an answer of a given length.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <limits>
#include <optional>

namespace k3::server {

// How long one thing takes, where each takes as long as the next: tokens of answers.
class Pace {
 public:
  explicit Pace(double memory) : memory_(memory) {}
  void add(std::size_t count, std::chrono::steady_clock::duration took);
  std::optional<double> seconds_each() const;  // nullopt: nothing was seen yet

 private:
  double memory_;  // about so many of the last ones count
  double count_ = 0, seconds_ = 0;
};

// How long prompts take. Their tokens share what a step reads, so that a step of 500 takes nowhere near 500 times one of a single
// token; how near depends on model, drive and memory. So nothing is assumed but that time grows with the rows of a step: what was
// seen is kept by their number, in powers of two, and what lies between is interpolated (both axes logarithmic).
class PromptPace {
 public:
  // `rows`: what a step of the model has at most.
  void add(std::size_t tokens, std::size_t rows, std::chrono::steady_clock::duration took);
  // `token`: seconds of a step with one row, where that is known. nullopt: nothing was seen yet.
  std::optional<double> seconds(std::size_t tokens, std::size_t rows, std::optional<double> token) const;

 private:
  struct Kind {
    double weight = 0, tokens = 0, seconds = 0;  // decayed sums; the latter two are logarithms
  };
  std::optional<double> step_seconds(double tokens, std::optional<double> token) const;

  std::array<Kind, std::numeric_limits<std::size_t>::digits + 1> kinds_{};  // by the number of bits of the rows' number
};

}  // namespace k3::server
