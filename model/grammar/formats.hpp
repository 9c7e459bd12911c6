// String formats that can be kept exactly, as patterns.
#pragma once

#include <string>
#include <string_view>

namespace k3::grammar {

// An anchored pattern whose strings are all valid under the format (for email, hostname and uri a part of those that are), or "".
std::string format_pattern(std::string_view name);
// For messages: the names that are known.
std::string_view known_formats();

}  // namespace k3::grammar
