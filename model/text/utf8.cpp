#include "model/text/utf8.hpp"

namespace k3::text::utf8 {

namespace {

// The second byte decides overlong forms (E0, F0), surrogates (ED) and the end of Unicode (F4): the limits of Unicode's table 3-7.
struct Lead {
  std::size_t length;  // of the whole sequence; 0: cannot begin one
  unsigned char second_low, second_high;
};

Lead lead_of(unsigned char byte) {
  if (byte < 0x80) return {1, 0, 0};
  if (byte < 0xc2) return {0, 0, 0};
  if (byte < 0xe0) return {2, 0x80, 0xbf};
  if (byte == 0xe0) return {3, 0xa0, 0xbf};
  if (byte == 0xed) return {3, 0x80, 0x9f};
  if (byte < 0xf0) return {3, 0x80, 0xbf};
  if (byte == 0xf0) return {4, 0x90, 0xbf};
  if (byte < 0xf4) return {4, 0x80, 0xbf};
  if (byte == 0xf4) return {4, 0x80, 0x8f};
  return {0, 0, 0};
}

}  // namespace

Decoded decode(std::string_view text, std::size_t position) {
  const Lead lead = lead_of(static_cast<unsigned char>(text[position]));
  if (lead.length == 0) return {Status::invalid, 0, 1};
  for (std::size_t i = 1; i < lead.length; ++i) {
    if (position + i == text.size()) return {Status::incomplete, 0, i};
    const auto byte = static_cast<unsigned char>(text[position + i]);
    const unsigned char low = i == 1 ? lead.second_low : 0x80;
    const unsigned char high = i == 1 ? lead.second_high : 0xbf;
    if (byte < low || byte > high) return {Status::invalid, 0, i};
  }
  return decode_valid(text, position);
}

std::optional<std::size_t> find_invalid(std::string_view text) {
  for (std::size_t position = 0; position < text.size();) {
    if (static_cast<unsigned char>(text[position]) < 0x80) {
      ++position;
      continue;
    }
    const Decoded decoded = decode(text, position);
    if (decoded.status != Status::valid) return position;
    position += decoded.length;
  }
  return std::nullopt;
}

std::size_t append_replacing(std::string& out, std::string_view text) {
  for (std::size_t position = 0; position < text.size();) {
    const Decoded decoded = decode(text, position);
    if (decoded.status == Status::incomplete) return decoded.length;
    out += decoded.status == Status::valid ? text.substr(position, decoded.length) : kReplacement;
    position += decoded.length;
  }
  return 0;
}

}  // namespace k3::text::utf8
