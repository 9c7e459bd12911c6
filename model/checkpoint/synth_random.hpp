// Random tensor contents, fast enough to keep a drive busy.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "model/checkpoint/tensor_list.hpp"

namespace k3::checkpoint {

// xoshiro256++ by Blackman and Vigna (public domain), seeded through splitmix64.
class Random {
 public:
  Random(std::uint64_t seed, std::string_view name);  // a tensor's content does not depend on when it is written
  std::uint64_t next();
  float uniform(float low, float high);

 private:
  std::uint64_t state_[4];
};

// Tables that turn 12 or 16 random bits into a sample; made once.
class Sampler {
 public:
  Sampler();
  // The next bytes of a tensor; `out` is a whole number of elements, `first` the index of its first element.
  void fill(const ExpectedTensor& tensor, const Config& config, Random& random, std::uint64_t first, std::span<char> out) const;

 private:
  void fill_bytes(const std::vector<std::uint8_t>& table, std::uint8_t shift, Random& random, std::span<char> out) const;
  void fill_bf16(float mean, float deviation, Random& random, std::span<char> out) const;
  float normal(Random& random) const { return normal_[random.next() >> 52]; }

  std::vector<float> normal_;                   // 4,096 samples of the unit normal, symmetric
  std::vector<std::uint8_t> nibbles_, scales_;  // 65,536 each, in the released proportions
};

}  // namespace k3::checkpoint
