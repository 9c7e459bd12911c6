// What the split rule asks of a code point (Unicode 16).
#pragma once

#include <array>
#include <cstdint>
#include <vector>

namespace k3::text::unicode {

// A set of these bits. Han stands beside a category: an ideograph is han | other_letter, a radical han alone.
enum Property : std::uint8_t {
  han = 1,           // Script=Han
  upper = 2,         // Lu, Lt
  lower = 4,         // Ll
  other_letter = 8,  // Lm, Lo
  mark = 16,         // M
  number = 32,       // N
  space = 64,        // White_Space
  letter = upper | lower | other_letter,
};

class PropertyTable {
 public:
  PropertyTable();
  // Precondition: code_point < 0x110000.
  std::uint8_t operator[](char32_t code_point) const { return blocks_[block_of_[code_point >> 8]][code_point & 0xff]; }

 private:
  using Block = std::array<std::uint8_t, 256>;
  std::array<std::uint16_t, 0x110000 / 256> block_of_;
  std::vector<Block> blocks_;
};

// Built on first use, shared afterwards.
const PropertyTable& property_table();

// Python's str.isspace: White_Space and the four separators U+001C..U+001F.
inline bool python_isspace(std::uint8_t properties, char32_t code_point) {
  return (properties & space) != 0 || (code_point >= 0x1c && code_point <= 0x1f);
}

}  // namespace k3::text::unicode
