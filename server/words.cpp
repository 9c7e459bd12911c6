// Names of choices, as flags, headers and bodies spell them.
#include "server/server.hpp"

namespace k3::server {

std::optional<PingStyle> ping_style(std::string_view name) {
  if (name == "comment") return PingStyle::comment;
  if (name == "delta") return PingStyle::delta;
  if (name == "off") return PingStyle::off;
  return std::nullopt;
}

std::optional<Keepalive> keepalive(std::string_view name) {
  if (name == "pad") return Keepalive::pad;
  if (name == "102") return Keepalive::interim;
  if (name == "off") return Keepalive::off;
  return std::nullopt;
}

std::optional<SamplingContract> sampling_contract(std::string_view name) {
  if (name == "open") return SamplingContract::open;
  if (name == "moonshot") return SamplingContract::moonshot;
  return std::nullopt;
}

}  // namespace k3::server
