#include "model/checkpoint/synth_random.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cassert>
#include <cmath>
#include <cstring>

namespace k3::checkpoint {
namespace {

std::uint64_t splitmix(std::uint64_t& state) {
  std::uint64_t z = state += 0x9e3779b97f4a7c15U;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9U;
  z = (z ^ z >> 27) * 0x94d049bb133111ebU;
  return z ^ z >> 31;
}

std::uint16_t to_bf16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  return static_cast<std::uint16_t>((bits + 0x7fffU + (bits >> 16 & 1U)) >> 16);
}

// 65,536 outcomes in the given proportions (any total).
std::vector<std::uint8_t> proportioned(std::span<const double> weights) {
  double total = 0, sum = 0;
  for (const double weight : weights) total += weight;
  std::vector<std::uint8_t> table;
  table.reserve(65536);
  for (std::size_t value = 0; value < weights.size(); ++value) {
    sum += weights[value];
    table.resize(static_cast<std::size_t>(std::llround(sum / total * 65536)), static_cast<std::uint8_t>(value));
  }
  return table;
}

// Measured on a released expert: 4-bit codes 0..7 in percent, the negatives alike.
constexpr double code_percent[8] = {5.8, 10.9, 9.6, 7.6, 7.6, 5.2, 2.5, 0.5};
// The scale bytes there, 2^(byte - 127).
constexpr std::array<std::pair<int, double>, 3> scale_percent = {{{120, 15.0}, {121, 84.5}, {122, 0.5}}};
// Root mean square of an e2m1 value under code_percent times the usual scale 2^-6: 1.82 / 64.
constexpr double released_deviation = 0.0284;

// Released widths keep the released scales. Narrower inputs need larger weights, lest activations fade from layer to layer.
std::uint8_t scale_shift(std::uint64_t inputs) {
  const double octaves = std::log2(1.0 / (std::sqrt(static_cast<double>(inputs)) * released_deviation));
  return static_cast<std::uint8_t>(std::clamp(std::lround(octaves), 0L, 16L));
}

bool ends(std::string_view name, std::string_view tail) { return name.ends_with(tail); }

float gain_of(std::string_view name) {
  if (ends(name, "q_b_proj.weight") || ends(name, "kv_a_proj_with_mqa.weight")) return 2.0F;
  if (ends(name, "_res_proj.weight")) return 1.5F;
  if (ends(name, "lm_head.weight")) return 3.0F;
  return 1.0F;
}

}  // namespace

Random::Random(std::uint64_t seed, std::string_view name) {
  // FNV-1a: unlike std::hash it is the same in every library.
  std::uint64_t mixed = 0xcbf29ce484222325U;
  for (const char c : name) mixed = (mixed ^ static_cast<unsigned char>(c)) * 0x100000001b3U;
  mixed ^= splitmix(seed);
  for (auto& word : state_) word = splitmix(mixed);
}

std::uint64_t Random::next() {
  const std::uint64_t result = std::rotl(state_[0] + state_[3], 23) + state_[0];
  const std::uint64_t t = state_[1] << 17;
  state_[2] ^= state_[0];
  state_[3] ^= state_[1];
  state_[1] ^= state_[2];
  state_[0] ^= state_[3];
  state_[2] ^= t;
  state_[3] = std::rotl(state_[3], 45);
  return result;
}

float Random::uniform(float low, float high) { return low + (high - low) * (static_cast<float>(next() >> 40) * 0x1p-24F); }

Sampler::Sampler() : normal_(4096) {
  Random random(0, "normal");
  // The sum of twelve uniforms has variance 1; mirrored, the table's mean is exactly 0.
  for (std::size_t i = 0; i < normal_.size(); i += 2) {
    float sum = -6.0F;
    for (int j = 0; j < 12; ++j) sum += random.uniform(0.0F, 1.0F);
    normal_[i] = sum;
    normal_[i + 1] = -sum;
  }
  std::array<double, 256> pairs{}, scales{};
  for (std::size_t byte = 0; byte < 256; ++byte) pairs[byte] = code_percent[byte & 7U] * code_percent[byte >> 4 & 7U];
  for (const auto& [scale, percent] : scale_percent) scales[static_cast<std::size_t>(scale)] = percent;
  nibbles_ = proportioned(pairs);
  scales_ = proportioned(scales);
}

void Sampler::fill_bytes(const std::vector<std::uint8_t>& table, std::uint8_t shift, Random& random, std::span<char> out) const {
  std::size_t i = 0;
  while (i < out.size()) {
    std::uint64_t bits = random.next();
    for (int j = 0; j < 4 && i < out.size(); ++j, bits >>= 16) out[i++] = static_cast<char>(table[bits & 0xffffU] + shift);
  }
}

void Sampler::fill_bf16(float mean, float deviation, Random& random, std::span<char> out) const {
  std::vector<std::uint16_t> table(normal_.size());
  for (std::size_t i = 0; i < table.size(); ++i) table[i] = to_bf16(mean + deviation * normal_[i]);
  std::size_t i = 0;
  while (i < out.size()) {
    std::uint64_t bits = random.next();
    for (int j = 0; j < 5 && i < out.size(); ++j, bits >>= 12, i += 2) std::memcpy(out.data() + i, &table[bits & 0xfffU], 2);
  }
}

void Sampler::fill(const ExpectedTensor& tensor, const Config& config, Random& random, std::uint64_t first,
                   std::span<char> out) const {
  const std::string_view name = tensor.name;
  if (tensor.dtype == DType::u8) {
    const bool packed = ends(name, "weight_packed");
    const std::uint8_t shift = packed ? std::uint8_t{0} : scale_shift(tensor.shape[1] * 32);
    return fill_bytes(packed ? nibbles_ : scales_, shift, random, out);
  }
  if (tensor.dtype == DType::bf16) {
    if (tensor.rank == 1) return fill_bf16(1.0F, 0.2F, random, out);
    if (ends(name, "embed_tokens.weight")) return fill_bf16(0.0F, 1.0F, random, out);
    return fill_bf16(0.0F, gain_of(name) / std::sqrt(static_cast<float>(tensor.shape[1])), random, out);
  }
  assert(tensor.dtype == DType::f32);
  for (std::size_t i = 0; i < out.size(); i += sizeof(float)) {
    float value = 0.0F;
    if (ends(name, "A_log")) {
      value = first + i / sizeof(float) < config.kda_heads ? random.uniform(-0.5F, 1.0F) : 0.0F;
    } else if (ends(name, "dt_bias")) {
      value = random.uniform(-4.0F, 0.5F);
    } else if (ends(name, "conv1d.weight")) {
      value = 0.6F * normal(random);
    } else if (ends(name, "o_norm.weight")) {
      value = 1.0F + 0.2F * normal(random);
    } else {
      value = 0.1F * normal(random);  // the router's correction bias
    }
    std::memcpy(out.data() + i, &value, sizeof value);
  }
}

}  // namespace k3::checkpoint
