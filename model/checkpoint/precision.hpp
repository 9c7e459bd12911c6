// In how many bits the trunk's matrices are held, and which of three switches decides for which matrix.
#pragma once

#include <cstdint>
#include <string_view>

namespace k3::checkpoint {

enum class Precision : std::uint8_t {
  bf16,  // as released
  int8,  // -127..127, a scale a row
  int4,  // nibble - 8, even columns low, a scale for 64 columns
};

unsigned bits(Precision precision);

// `released`: never rounded (embedding, router, f_a, f_b, b, and whatever is no matrix).
enum class BitsOf : std::uint8_t { released, most, mla, head };
// Of a matrix [outputs, inputs]; its name without the prefix "language_model.". Attention matrices share names between the two
// kinds of layers, but not a switch.
BitsOf bits_of(std::string_view name, bool is_kda);

// What the matrices that bear it are rounded to.
struct TrunkPrecision {
  Precision most = Precision::bf16;  // of KDA, the latent projections, shared experts, the dense MLP
  Precision mla = Precision::bf16;
  Precision head = Precision::bf16;

  Precision of(BitsOf which) const;
  bool exact() const { return most == Precision::bf16 && mla == Precision::bf16 && head == Precision::bf16; }
  friend bool operator==(const TrunkPrecision&, const TrunkPrecision&) = default;
};

}  // namespace k3::checkpoint
