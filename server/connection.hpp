// One accepted socket: writing with a stall limit, deadlines for reading, and noticing that the client has left while it waits.
// Everything here runs on the server's one thread.
#pragma once

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "server/limits.hpp"

namespace k3::server {

namespace asio = boost::asio;
using asio::ip::tcp;

// Named, because the operand of co_await must not make things (g++ 12).
inline constexpr auto kAsTuple = asio::as_tuple(asio::use_awaitable);

class Connection : public std::enable_shared_from_this<Connection> {
 public:
  // `limits` outlives the connection.
  Connection(tcp::socket socket, const Limits& limits);

  tcp::socket& socket() { return socket_; }
  const Limits& limits() const { return limits_; }
  const std::string& peer() const { return peer_; }

  // A deadline for what is being awaited on the socket: when it passes, those operations end with an error and expired() is true.
  void arm(std::chrono::milliseconds duration);
  void disarm();
  bool expired() const { return expired_; }

  // All of `bytes`; false once the peer is gone or has taken nothing for Limits::write_stall. The bytes must outlive the call.
  asio::awaitable<bool> write(std::string_view bytes);

  // While an answer is computed nobody reads the socket, so a departing client would go unnoticed. `on_gone` is called once when
  // the peer closes, resets, or half-closes (a client that only shuts its sending side is taken to be gone).
  void watch(std::function<void()> on_gone);
  void unwatch();
  // For a peer that has sent more (a pipelined request): the watch must leave those bytes alone and cannot see past them,
  // but the kernel can. Cheap enough to ask every few seconds.
  bool hung_up() const;

  bool broken() const { return broken_; }
  void drop();   // now, from any state: everything awaited on the socket ends
  void close();  // after the last response

  bool busy = false;  // a request is being answered, so a drain must not close it yet

 private:
  void wait_for_input();
  void on_input(const boost::system::error_code& error);
  void mark_gone();

  tcp::socket socket_;
  const Limits& limits_;
  asio::steady_timer timer_;
  std::string peer_;
  std::function<void()> on_gone_;
  unsigned deadline_round_ = 0;
  unsigned watch_round_ = 0;
  bool expired_ = false;
  bool broken_ = false;
};

}  // namespace k3::server
