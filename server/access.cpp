#include "server/access.hpp"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <cctype>
#include <fstream>

namespace k3::server {
namespace {

constexpr std::size_t kGuessable = 6;  // characters

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

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kBlank = " \t\r";
  const std::size_t begin = text.find_first_not_of(kBlank);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kBlank) + 1 - begin);
}

bool is_name(std::string_view name) {
  return !name.empty() && name.size() <= 64 && std::all_of(name.begin(), name.end(), [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '-' || c == '_' || c == '.';
  });
}

// What a header field can carry.
bool is_secret(std::string_view key) {
  return !key.empty() && key.size() <= 1024 && std::all_of(key.begin(), key.end(), [](char c) { return c > ' ' && c < 0x7f; });
}

// "https://app.example" or with a port: what a browser sends, and so what can be compared with it.
bool is_origin(std::string_view text) {
  const std::size_t scheme = text.find("://");
  return scheme != std::string_view::npos && scheme > 0 && text.size() > scheme + 3 &&
         text.find_first_of("/?# ,", scheme + 3) == std::string_view::npos;
}

// A name or an address as a Host header has it, without the port.
bool is_host(std::string_view text) {
  const bool bracketed = text.starts_with('[') && text.ends_with(']') && text.size() > 2;
  if (bracketed) text = text.substr(1, text.size() - 2);
  return !text.empty() && std::all_of(text.begin(), text.end(), [bracketed](unsigned char c) {
    return std::isalnum(c) != 0 || c == '.' || (bracketed ? c == ':' : c == '-' || c == '_');
  });
}

void warn_if_readable(const std::filesystem::path& path) {
  std::error_code error;
  const auto mode = std::filesystem::status(path, error).permissions();
  if (!error && (mode & std::filesystem::perms::others_read) != std::filesystem::perms::none) {
    spdlog::warn("{} can be read by every user of this machine; `chmod 600` it", path.string());
  }
}

}  // namespace

// `NAME:KEY`, `NAME KEY` or just `KEY`. What is wrong is told without the line's text, which may be somebody's secret.
Result<void> Access::read_key(std::string_view line, std::size_t number) {
  const auto wrong = [number](const std::string& what) {
    return fail(ErrorCode::invalid_argument, "line " + std::to_string(number) + " of the API key file " + what);
  };
  Key key{.name = "key-" + std::to_string(number), .secret = std::string(line)};
  if (const std::size_t split = line.find_first_of(": \t"); split != std::string_view::npos) {
    std::string_view secret = trimmed(line.substr(split));
    if (secret.starts_with(':')) secret = trimmed(secret.substr(1));
    key = {std::string(line.substr(0, split)), std::string(secret)};
  }
  if (!is_name(key.name) || !is_secret(key.secret)) return wrong("is neither `NAME:KEY` nor `KEY`");
  for (const auto& other : keys_) {
    if (other.name == key.name) return wrong("names a key like an earlier one");
    // Whose request it is would depend on the order of the lines.
    if (other.secret == key.secret) return wrong("has the same key as an earlier one");
  }
  if (key.secret.size() < kGuessable) spdlog::warn("the API key in line {} of its file is short enough to be guessed", number);
  keys_.push_back(std::move(key));
  return {};
}

Result<void> Access::read_keys(const std::filesystem::path& path) {
  std::ifstream file(path);
  const auto in_file = [&path](Error error) {
    error.file = path.string();
    return error;
  };
  if (!file || std::filesystem::is_directory(path)) return in_file(fail(ErrorCode::io, "cannot read the API key file"));
  warn_if_readable(path);
  std::string line;
  for (std::size_t number = 1; std::getline(file, line); ++number) {
    const std::string_view text = trimmed(std::string_view(line).substr(0, line.find('#')));
    if (text.empty()) continue;
    if (auto read = read_key(text, number); !read) return in_file(read.error());
  }
  if (keys_.empty()) return in_file(fail(ErrorCode::invalid_argument, "the API key file holds no key"));
  return {};
}

Result<Access> Access::create(const ServerOptions& options, bool reachable) {
  Access access;
  if (!options.api_key_file.empty()) {
    if (auto read = access.read_keys(options.api_key_file); !read) return read.error();
  }
  if (reachable && access.keys_.empty()) {
    return fail(ErrorCode::invalid_argument,
                "host " + options.host + " can be reached from other machines: give an API key file, or bind to 127.0.0.1");
  }
  for (const auto& origin : options.cors_origins) {
    if (origin == "*" && access.keys_.empty()) {
      return fail(ErrorCode::invalid_argument,
                  "with CORS origin * every web page that is visited here could use the model: give an API key file too");
    }
    if (origin != "*" && !is_origin(origin)) {
      return Error{.code = ErrorCode::invalid_argument,
                   .message = "not an origin",
                   .expected = "* or scheme://host[:port] without a path",
                   .got = origin};
    }
    access.origins_.push_back(lower(origin));
  }
  access.hosts_ = {"localhost", "127.0.0.1", "[::1]"};
  for (const auto& host : options.allowed_hosts) {
    if (!is_host(host)) {
      return Error{.code = ErrorCode::invalid_argument,
                   .message = "no request can have this Host",
                   .expected = "a name or an address without scheme, port or path, such as k3.example or [::1]",
                   .got = host};
    }
    access.hosts_.push_back(lower(host));
  }
  access.any_host_ = reachable && options.allowed_hosts.empty();
  return access;
}

std::string Access::allowed_origin(const Request& request) const {
  if (request.origin.empty()) return {};
  const auto listed = [this](std::string_view origin) {
    return std::find(origins_.begin(), origins_.end(), origin) != origins_.end();
  };
  if (listed(lower(request.origin))) return request.origin;
  return listed("*") ? "*" : "";
}

std::optional<ApiError> Access::check_site(const Request& request) const {
  const std::string host = without_port(request.host);
  const bool known = std::find(hosts_.begin(), hosts_.end(), host) != hosts_.end();
  if (!known && !any_host_ && !(host.empty() && !request.http11)) {
    return ApiError{.status = 403, .message = "this Host is not served here; see --allowed-host", .code = "host_not_allowed"};
  }
  if (request.origin.empty() || !allowed_origin(request).empty()) return std::nullopt;
  const std::size_t scheme = request.origin.find("://");
  const std::string origin =
      scheme == std::string::npos ? std::string() : lower(std::string_view(request.origin).substr(scheme + 3));
  if (origin.empty() || origin != lower(request.host)) {
    return ApiError{
        .status = 403, .message = "pages of this origin may not use this server; see --cors-origin", .code = "origin_not_allowed"};
  }
  return std::nullopt;
}

std::optional<ApiError> Access::check_key(Request& request) const {
  if (keys_.empty()) return std::nullopt;
  std::string_view given = request.api_key;
  constexpr std::string_view kBearer = "bearer ";
  if (lower(std::string_view(request.authorization).substr(0, kBearer.size())) == kBearer) {
    given = trimmed(std::string_view(request.authorization).substr(kBearer.size()));
  }
  bool accepted = false;
  for (const auto& key : keys_) {
    if (!equal_constant_time(given, key.secret)) continue;
    accepted = true;
    request.key_name = key.name;
  }
  if (accepted) return std::nullopt;
  return ApiError{.status = 401,
                  .message = given.empty() ? "an API key is needed: Authorization: Bearer KEY" : "this API key is not known",
                  .code = "invalid_api_key",
                  .headers = {{"WWW-Authenticate", "Bearer"}}};
}

}  // namespace k3::server
