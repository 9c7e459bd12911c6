// What `k3 bench grammar` walks through, and with which vocabulary.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace k3::cli {

constexpr std::size_t bench_vocabulary = 163'840;

// The same numbers on every machine.
class BenchRandom {
 public:
  explicit BenchRandom(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next() {
    state_ += 0x9e3779b97f4a7c15ULL;
    std::uint64_t x = state_;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
    return x ^ (x >> 31);
  }
  std::size_t below(std::size_t limit) { return static_cast<std::size_t>(next() % limit); }

 private:
  std::uint64_t state_;
};

// [id]; each single byte, words and parts of words, three in ten in three-byte characters, numbers, punctuation, runs of spaces;
// the last 256 are empty, as control tokens are.
std::vector<std::string> bench_spellings();

struct GrammarCase {
  std::string name, schema;
};
const std::vector<GrammarCase>& grammar_cases();

}  // namespace k3::cli
