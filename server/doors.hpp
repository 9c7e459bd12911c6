// Where clients come in: a TCP port, a Unix socket. Both are open before the model loads, so that a busy one fails at once.
#pragma once

#include <sys/types.h>

#include <boost/asio/basic_socket_acceptor.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/address.hpp>
#include <filesystem>

#include "server/tls.hpp"

namespace k3::server {

class Door {
 public:
  // Errors (io): the port is in use, or not ours to take.
  static Result<Door> tcp(asio::io_context& io, const asio::ip::address& address, std::uint16_t port);
  // For its owner only (mode 0600). A socket file that nobody listens at, left behind by a process that was killed, is replaced;
  // anything else at `path` is an error (io).
  static Result<Door> local(asio::io_context& io, const std::filesystem::path& path);
  // Takes the socket file away, unless somebody has put another in its place.
  ~Door();
  Door(Door&&) noexcept = default;
  Door& operator=(Door&&) = delete;

  asio::basic_socket_acceptor<asio::generic::stream_protocol>& acceptor() { return acceptor_; }
  std::uint16_t port() const;
  void close();

 private:
  using Acceptor = asio::basic_socket_acceptor<asio::generic::stream_protocol>;
  explicit Door(Acceptor acceptor) : acceptor_(std::move(acceptor)) {}

  struct File {
    std::filesystem::path path{};
    dev_t device = 0;
    ino_t inode = 0;
  };
  Acceptor acceptor_;
  std::unique_ptr<File> file_;  // of a Unix socket
};

}  // namespace k3::server
