#include "model/text/unicode.hpp"

#include <map>

namespace k3::text::unicode {

namespace {

struct Range {
  std::uint32_t first, last;
  std::uint8_t stride, properties;
};

constexpr Range kRanges[] = {
#include "model/text/unicode_tables.inc"
};

}  // namespace

PropertyTable::PropertyTable() {
  std::vector<std::uint8_t> flat(0x110000);
  for (const Range& range : kRanges) {
    for (std::uint32_t code = range.first; code <= range.last; code += range.stride) flat[code] = range.properties;
  }
  // Most of the 4,352 blocks are alike (unassigned, or one ideograph after another): each distinct one is kept once.
  std::map<Block, std::uint16_t> known;
  for (std::size_t index = 0; index < block_of_.size(); ++index) {
    Block block{};
    for (std::size_t i = 0; i < block.size(); ++i) block[i] = flat[index * block.size() + i];
    const auto [entry, fresh] = known.try_emplace(block, static_cast<std::uint16_t>(blocks_.size()));
    if (fresh) blocks_.push_back(block);
    block_of_[index] = entry->second;
  }
}

const PropertyTable& property_table() {
  static const PropertyTable table;
  return table;
}

}  // namespace k3::text::unicode
