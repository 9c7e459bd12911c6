// What stands between <|open|> or <|close|> and <|sep|>: a tag and its attributes.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace k3::text {

enum class Tag { unknown, empty, message, think, response, tools, call, argument, json };

Tag tag_named(std::string_view name);
std::string_view tag_name(Tag tag);  // of the known ones

struct ChannelHeader {
  Tag tag = Tag::unknown;
  std::vector<std::pair<std::string, std::string>> attributes;
  // The text is exactly a tag and well-formed attributes. Where it is not, a value may have swallowed its neighbours, so none is
  // used.
  bool well_formed = false;

  // The last attribute of that name; nullopt too when the header is malformed.
  std::optional<std::string_view> attribute(std::string_view key) const;
};

ChannelHeader parse_channel_header(std::string_view text);

}  // namespace k3::text
