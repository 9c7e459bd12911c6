#include "server/access.hpp"

#include <algorithm>
#include <cctype>
#include <fstream>
#include <sstream>

namespace k3::server {
namespace {

std::string lower(std::string_view text) {
  std::string result(text);
  std::transform(result.begin(), result.end(), result.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return result;
}

// "[::1]:8080" -> "[::1]", "localhost:8080" -> "localhost"
std::string without_port(std::string_view authority) {
  const std::size_t bracket = authority.rfind(']');
  const std::size_t colon = authority.rfind(':');
  if (colon != std::string_view::npos && (bracket == std::string_view::npos || colon > bracket))
    authority = authority.substr(0, colon);
  return lower(authority);
}

// Takes as long for a wrong key as for a right one, so that time does not tell how much of a guess fits.
bool equal_constant_time(std::string_view left, std::string_view right) {
  unsigned difference = left.size() == right.size() ? 0U : 1U;
  for (std::size_t i = 0; i < left.size(); ++i) {
    const char other = right.empty() ? '\0' : right[i % right.size()];
    difference |= static_cast<unsigned char>(left[i]) ^ static_cast<unsigned char>(other);
  }
  return difference == 0;
}

}  // namespace

Result<Access> Access::create(const ServerOptions& options, bool loopback) {
  Access access;
  if (!options.api_key_file.empty()) {
    std::ifstream file(options.api_key_file);
    if (!file)
      return Error{.code = ErrorCode::io, .message = "cannot read the API key file", .file = options.api_key_file.string()};
    std::string line;
    for (std::size_t number = 1; std::getline(file, line); ++number) {
      std::istringstream words(line.substr(0, line.find('#')));
      std::string first, second, rest;
      if (!(words >> first)) continue;
      if (!(words >> second)) {
        second = first;
        first = "key-" + std::to_string(number);
      }
      if (words >> rest) {
        return Error{.code = ErrorCode::invalid_argument,
                     .message = "line " + std::to_string(number) + " of the API key file is neither `KEY` nor `NAME KEY`",
                     .file = options.api_key_file.string()};
      }
      access.keys_.push_back({first, second});
    }
    if (access.keys_.empty()) {
      return Error{
          .code = ErrorCode::invalid_argument, .message = "the API key file holds no key", .file = options.api_key_file.string()};
    }
  }
  if (!loopback && access.keys_.empty()) {
    return fail(ErrorCode::invalid_argument,
                "host " + options.host + " can be reached from other machines: give an API key file, or bind to 127.0.0.1");
  }
  access.hosts_ = {"localhost", "127.0.0.1", "[::1]"};
  for (const auto& host : options.allowed_hosts) access.hosts_.push_back(lower(host));
  access.any_host_ = !loopback && options.allowed_hosts.empty();
  return access;
}

std::optional<ApiError> Access::check_site(const Request& request) const {
  const std::string host = without_port(request.host);
  const bool known = std::find(hosts_.begin(), hosts_.end(), host) != hosts_.end();
  if (!known && !any_host_ && !(host.empty() && !request.http11)) {
    return ApiError{.status = 403, .message = "this Host is not served here; see --allowed-host", .code = "host_not_allowed"};
  }
  if (request.origin.empty()) return std::nullopt;
  const std::size_t scheme = request.origin.find("://");
  const std::string origin =
      scheme == std::string::npos ? std::string() : lower(std::string_view(request.origin).substr(scheme + 3));
  if (origin.empty() || origin != lower(request.host)) {
    return ApiError{.status = 403, .message = "pages of other origins may not use this server", .code = "origin_not_allowed"};
  }
  return std::nullopt;
}

std::optional<ApiError> Access::check_key(const Request& request) const {
  if (keys_.empty()) return std::nullopt;
  std::string_view given = request.api_key;
  constexpr std::string_view kBearer = "bearer ";
  if (lower(std::string_view(request.authorization).substr(0, kBearer.size())) == kBearer) {
    given = std::string_view(request.authorization).substr(kBearer.size());
  }
  bool accepted = false;
  for (const auto& key : keys_) accepted = equal_constant_time(given, key.secret) || accepted;
  if (accepted) return std::nullopt;
  return ApiError{.status = 401,
                  .message = given.empty() ? "an API key is needed: Authorization: Bearer KEY" : "this API key is not known",
                  .code = "invalid_api_key",
                  .headers = {{"WWW-Authenticate", "Bearer"}}};
}

}  // namespace k3::server
