#include <algorithm>
#include <array>
#include <charconv>

#include "model/text/bpe.hpp"

namespace k3::text {

namespace {

constexpr std::uint8_t kNotBase64 = 64;

constexpr std::array<std::uint8_t, 256> kBase64 = [] {
  std::array<std::uint8_t, 256> values{};
  values.fill(kNotBase64);
  constexpr std::string_view alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  for (std::size_t i = 0; i < alphabet.size(); ++i) values[static_cast<unsigned char>(alphabet[i])] = static_cast<std::uint8_t>(i);
  return values;
}();

// Appends the decoded bytes. Padding is required, and the bits it leaves over must be zero: one text has one spelling.
bool append_base64(std::string& out, std::string_view text) {
  if (text.empty() || text.size() % 4 != 0) return false;
  const std::size_t padding = text.ends_with("==") ? 2 : text.ends_with("=") ? 1 : 0;
  for (std::size_t group = 0; group < text.size(); group += 4) {
    const std::size_t digits = group + 4 == text.size() ? 4 - padding : 4;
    std::uint32_t bits = 0;
    for (std::size_t i = 0; i < 4; ++i) {
      const std::uint8_t value = i < digits ? kBase64[static_cast<unsigned char>(text[group + i])] : std::uint8_t{0};
      if (value == kNotBase64) return false;
      bits = bits << 6 | value;
    }
    const std::size_t bytes = digits - 1;
    if (((bits << (8 * bytes)) & 0xff'ffff) != 0) return false;
    for (std::size_t i = 0; i < bytes; ++i) out += static_cast<char>(bits >> (16 - 8 * i) & 0xff);
  }
  return true;
}

struct Line {
  std::string_view text;
  std::size_t offset;
  std::uint32_t number;
};

Error bad_line(const Line& line, const std::string& what, const std::string& expected) {
  constexpr std::size_t kShown = 80;
  std::string got;
  for (const char c : line.text.substr(0, kShown)) got += c >= ' ' && c <= '~' ? c : '?';
  Error error = fail(ErrorCode::corrupt, "line " + std::to_string(line.number) + ": " + what);
  error.offset = static_cast<std::int64_t>(line.offset);
  error.expected = expected;
  error.got = "\"" + got + (line.text.size() > kShown ? "..." : "") + "\"";
  return error;
}

struct Parsed {
  std::uint32_t rank;
  std::size_t begin, size;  // in the decoded bytes
  std::uint32_t line;
};

Result<Parsed> parse_line(const Line& line, std::string& decoded) {
  const std::size_t gap = line.text.find(' ');
  if (gap == std::string_view::npos) return bad_line(line, "no rank", "\"BASE64 RANK\"");
  const std::size_t begin = decoded.size();
  if (!append_base64(decoded, line.text.substr(0, gap))) return bad_line(line, "not base64", "padded base64 of the token's bytes");
  if (decoded.size() - begin > Vocabulary::Limits::token_bytes) {
    return bad_line(line, "token too long", "at most " + std::to_string(Vocabulary::Limits::token_bytes) + " bytes");
  }
  const std::string_view digits = line.text.substr(gap + 1);
  std::uint32_t rank = 0;
  const auto [end, status] = std::from_chars(digits.data(), digits.data() + digits.size(), rank);
  if (status != std::errc() || end != digits.data() + digits.size() || rank >= Vocabulary::Limits::entries) {
    return bad_line(line, "bad rank", "an integer below " + std::to_string(Vocabulary::Limits::entries));
  }
  return Parsed{rank, begin, decoded.size() - begin, line.number};
}

}  // namespace

Result<Vocabulary> parse_vocabulary(std::string_view text, const std::string& file) {
  const auto in_file = [&](Error error) {
    error.file = file;
    return error;
  };
  if (text.size() > Vocabulary::Limits::file_bytes) {
    return in_file(fail(ErrorCode::invalid_argument, "larger than " + std::to_string(Vocabulary::Limits::file_bytes) + " bytes"));
  }
  std::string decoded;
  std::vector<Parsed> parsed;
  std::uint32_t number = 0;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    Line line{text.substr(begin, end - begin), begin, ++number};
    begin = end + 1;
    if (line.text.ends_with('\r')) line.text.remove_suffix(1);
    if (line.text.empty()) continue;
    if (parsed.size() == Vocabulary::Limits::entries) {
      return in_file(bad_line(line, "too many tokens", "at most " + std::to_string(Vocabulary::Limits::entries)));
    }
    const Result<Parsed> entry = parse_line(line, decoded);
    if (!entry) return in_file(entry.error());
    parsed.push_back(*entry);
  }
  // Views only now: `decoded` has stopped growing.
  std::vector<Vocabulary::Entry> entries;
  entries.reserve(parsed.size());
  for (const Parsed& p : parsed) entries.push_back({p.rank, p.line, std::string_view(decoded).substr(p.begin, p.size)});
  Result<Vocabulary> vocabulary = Vocabulary::build(std::move(entries));
  if (!vocabulary) return in_file(vocabulary.error());
  return vocabulary;
}

}  // namespace k3::text
