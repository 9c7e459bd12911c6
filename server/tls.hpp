// TLS below HTTP: the server's certificate, and the encrypted side of one connection. Without --tls-cert nothing here is used.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/generic/stream_protocol.hpp>
#include <filesystem>
#include <memory>
#include <tuple>

#include "model/error.hpp"

namespace k3::server {

namespace asio = boost::asio;
// Of TCP and of Unix sockets alike.
using Socket = asio::generic::stream_protocol::socket;
using IoResult = std::tuple<boost::system::error_code, std::size_t>;

class TlsContext {
 public:
  // PEM files: the certificate with its chain, and its private key, without a password. Errors (invalid_argument) name the file.
  static Result<std::shared_ptr<TlsContext>> create(const std::filesystem::path& certificate, const std::filesystem::path& key);
  TlsContext();
  ~TlsContext();
  struct State;

 private:
  friend class TlsStream;
  std::unique_ptr<State> state_;
};

class TlsStream {
 public:
  // Both outlive the stream.
  TlsStream(Socket& socket, TlsContext& context);
  ~TlsStream();

  asio::awaitable<boost::system::error_code> handshake();
  asio::awaitable<IoResult> read_some(asio::mutable_buffer space);
  asio::awaitable<IoResult> write_some(asio::const_buffer bytes);
  // Says that nothing more will come, and waits for the peer to say so too.
  asio::awaitable<void> shutdown();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace k3::server
