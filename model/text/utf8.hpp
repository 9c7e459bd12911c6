// UTF-8, one code point at a time.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace k3::text::utf8 {

enum class Status {
  valid,
  invalid,     // `length` bytes are a maximal subpart: they become one U+FFFD
  incomplete,  // all `length` bytes up to the end could still begin a code point
};

struct Decoded {
  Status status;
  char32_t code_point;  // of a valid one
  std::size_t length;   // bytes, at least 1
};

// What stands at `position`. Precondition: position < text.size().
Decoded decode(std::string_view text, std::size_t position);

// The same for text known to be valid.
inline Decoded decode_valid(std::string_view text, std::size_t position) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[position + i]); };
  const char32_t lead = byte(0);
  if (lead < 0x80) return {Status::valid, lead, 1};
  const auto tail = [&](std::size_t i) { return static_cast<char32_t>(byte(i) & 0x3f); };
  if (lead < 0xe0) return {Status::valid, (lead & 0x1f) << 6 | tail(1), 2};
  if (lead < 0xf0) return {Status::valid, (lead & 0x0f) << 12 | tail(1) << 6 | tail(2), 3};
  return {Status::valid, (lead & 0x07) << 18 | tail(1) << 12 | tail(2) << 6 | tail(3), 4};
}

// Offset of the first byte that is not valid UTF-8.
std::optional<std::size_t> find_invalid(std::string_view text);

// Appends `text` with one U+FFFD for every maximal invalid part; returns how many bytes at its end are incomplete and were left
// out.
std::size_t append_replacing(std::string& out, std::string_view text);

inline constexpr std::string_view kReplacement = "\xef\xbf\xbd";

}  // namespace k3::text::utf8
