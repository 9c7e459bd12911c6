#include "model/text/channel_header.hpp"

#include <algorithm>
#include <array>

namespace k3::text {
namespace {

constexpr std::array<std::pair<Tag, std::string_view>, 7> known{{{Tag::message, "message"},
                                                                 {Tag::think, "think"},
                                                                 {Tag::response, "response"},
                                                                 {Tag::tools, "tools"},
                                                                 {Tag::call, "call"},
                                                                 {Tag::argument, "argument"},
                                                                 {Tag::json, "json"}}};

bool is_space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }
bool is_word(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_'; }

void skip_space(std::string_view& text) {
  while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
}

std::string_view take_word(std::string_view& text) {
  const auto end = static_cast<std::size_t>(std::ranges::find_if_not(text, is_word) - text.begin());
  const std::string_view word = text.substr(0, end);
  text.remove_prefix(end);
  return word;
}

void replace_all(std::string& text, std::string_view from, std::string_view to) {
  for (std::size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size())) {
    text.replace(at, from.size(), to);
  }
}

// `&amp;` last: the escape `&amp;quot;` stands for the text `&quot;`.
std::string unescape(std::string_view value) {
  std::string text(value);
  replace_all(text, "&quot;", "\"");
  replace_all(text, "&amp;", "&");
  return text;
}

}  // namespace

Tag tag_named(std::string_view name) {
  if (name.empty()) return Tag::empty;
  for (const auto& [tag, text] : known) {
    if (text == name) return tag;
  }
  return Tag::unknown;
}

std::string_view tag_name(Tag tag) {
  for (const auto& [each, text] : known) {
    if (each == tag) return text;
  }
  return {};
}

std::optional<std::string_view> ChannelHeader::attribute(std::string_view key) const {
  if (!well_formed) return std::nullopt;
  for (auto each = attributes.rbegin(); each != attributes.rend(); ++each) {
    if (each->first == key) return each->second;
  }
  return std::nullopt;
}

ChannelHeader parse_channel_header(std::string_view text) {
  ChannelHeader header;
  skip_space(text);
  const auto end = static_cast<std::size_t>(std::ranges::find_if(text, is_space) - text.begin());
  header.tag = tag_named(text.substr(0, end));
  text.remove_prefix(end);
  for (skip_space(text); !text.empty(); skip_space(text)) {
    const std::string_view key = take_word(text);
    if (key.empty() || !text.starts_with("=\"")) return header;
    text.remove_prefix(2);
    const std::size_t quote = text.find('"');
    if (quote == std::string_view::npos) return header;
    header.attributes.emplace_back(key, unescape(text.substr(0, quote)));
    text.remove_prefix(quote + 1);
    if (!text.empty() && !is_space(text.front())) return header;
  }
  header.well_formed = true;
  return header;
}

}  // namespace k3::text
