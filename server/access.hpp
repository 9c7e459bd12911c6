// Who may talk to the server: API keys, and the Host and Origin checks that keep web pages of other sites out.
#pragma once

#include <optional>

#include "server/http_io.hpp"
#include "server/server.hpp"

namespace k3::server {

class Access {
 public:
  // Reads the key file. Errors: io, invalid_argument (a line that is no key; an open bind without keys; an origin that is none).
  // `reachable`: other machines can connect.
  static Result<Access> create(const ServerOptions& options, bool reachable);

  // A page of any site can make a browser send requests to 127.0.0.1, either under a name of its own (DNS rebinding: the Host field
  // tells) or cross-origin without a preflight (the Origin field tells).
  std::optional<ApiError> check_site(const Request& request) const;
  // The origin whose pages may read the response, as a browser wants to be told; empty where it need not be.
  std::string allowed_origin(const Request& request) const;
  // Of an accepted key, the name goes into `request`.
  std::optional<ApiError> check_key(Request& request) const;

 private:
  struct Key {
    std::string name, secret;
  };
  Result<void> read_keys(const std::filesystem::path& path);
  Result<void> read_key(std::string_view line, std::size_t number);

  std::vector<Key> keys_;
  std::vector<std::string> hosts_;
  std::vector<std::string> origins_;
  bool any_host_ = false;
};

}  // namespace k3::server
