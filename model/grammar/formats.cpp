#include "model/grammar/formats.hpp"

namespace k3::grammar {
namespace {

// 29 February in years divisible by 4, but not by 100 unless by 400.
const std::string date =
    "(\\d{4}-((0[13578]|1[02])-(0[1-9]|[12]\\d|3[01])|(0[469]|11)-(0[1-9]|[12]\\d|30)|02-(0[1-9]|1\\d|2[0-8]))"
    "|(\\d\\d(0[48]|[2468][048]|[13579][26])|([02468][048]|[13579][26])00)-02-29)";
// Leap seconds depend on the day and are left out.
const std::string time = "(([01]\\d|2[0-3]):[0-5]\\d:[0-5]\\d(\\.\\d{1,9})?(Z|[+-]([01]\\d|2[0-3]):[0-5]\\d))";
const std::string octet = "(25[0-5]|2[0-4]\\d|1\\d\\d|[1-9]?\\d)";

// Labels short and few enough for the whole to stay below 253 characters.
const std::string label = "([A-Za-z0-9]([A-Za-z0-9-]{0,33}[A-Za-z0-9])?)";
const std::string host = "(" + label + "(\\." + label + "){0,6})";
const std::string uri_character = "([A-Za-z0-9._~!$&'()*+,;=:@-]|%[0-9A-Fa-f]{2})";

const std::string mailbox = "[A-Za-z0-9_%+-]+(\\.[A-Za-z0-9_%+-]+)*@(" + label + "\\.){1,5}[A-Za-z]{2,24}";

std::string ipv6() {
  const std::string group = "[0-9A-Fa-f]{1,4}";
  std::string out = "((" + group + ":){7}" + group;
  // `::` stands for two groups or more.
  for (int left = 0; left <= 6; ++left) {
    out += "|";
    if (left > 0) out += "(" + group + ":){" + std::to_string(left - 1) + "}" + group;
    out += "::";
    if (left < 6) out += "(" + group + "(:" + group + "){0," + std::to_string(5 - left) + "})?";
  }
  return out + ")";
}

std::string duration() {
  const std::string days = "\\d{1,9}D", months = "(\\d{1,9}M(" + days + ")?|" + days + ")";
  const std::string dates = "(\\d{1,9}Y" + months + "?|" + months + ")";
  const std::string seconds = "\\d{1,9}S", minutes = "(\\d{1,9}M(" + seconds + ")?|" + seconds + ")";
  const std::string times = "T(\\d{1,9}H" + minutes + "?|" + minutes + ")";
  return "P(" + dates + "(" + times + ")?|" + times + "|\\d{1,9}W)";
}

std::string body(std::string_view name) {
  if (name == "date") return date;
  if (name == "time") return time;
  if (name == "date-time") return date + "T" + time;
  if (name == "uuid") return "[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}";
  if (name == "ipv4") return octet + "(\\." + octet + "){3}";
  if (name == "ipv6") return ipv6();
  if (name == "email") return mailbox;
  if (name == "hostname") return host;
  if (name == "uri") {
    return "[a-z][a-z0-9+.-]*://" + host + "(:\\d{1,5})?(/" + uri_character + "*)*(\\?(" + uri_character + "|[/?])*)?(#(" +
           uri_character + "|[/?])*)?";
  }
  if (name == "duration") return duration();
  return {};
}

}  // namespace

std::string format_pattern(std::string_view name) {
  const std::string pattern = body(name);
  return pattern.empty() ? pattern : "^(" + pattern + ")$";
}

std::string_view known_formats() { return "date, time, date-time, duration, email, hostname, ipv4, ipv6, uri, uuid"; }

}  // namespace k3::grammar
