// One accepted socket: reading and writing, in clear or through TLS, with deadlines, and noticing that the client has left while it
// waits. Everything here runs on the server's one thread.
#pragma once

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "server/limits.hpp"
#include "server/tls.hpp"

namespace k3::server {

// Named, because the operand of co_await must not make things (g++ 12).
inline constexpr auto kAsTuple = asio::as_tuple(asio::use_awaitable);

class Connection : public std::enable_shared_from_this<Connection> {
 public:
  struct Manners {
    std::shared_ptr<TlsContext> tls{};  // null: in clear
    bool half_close = false;            // a peer that has shut its sending side still reads
  };
  // `limits` outlives the connection.
  Connection(Socket socket, const Limits& limits, Manners manners);
  ~Connection();

  const Limits& limits() const { return limits_; }
  const std::string& peer() const { return peer_; }  // an address, or "unix"
  bool local() const { return local_; }              // by a Unix socket
  bool encrypted() const { return tls_ != nullptr; }

  // Before anything else where there is TLS; false: the peer speaks something else, or is too slow.
  asio::awaitable<bool> greet();

  // A deadline for what is being awaited on the socket: when it passes, those operations end with an error and expired() is true.
  void arm(std::chrono::milliseconds duration);
  void disarm();
  bool expired() const { return expired_; }

  asio::awaitable<IoResult> read_some(asio::mutable_buffer space);
  // All of `bytes`; false once the peer is gone or has taken nothing for Limits::write_stall. The bytes must outlive the call.
  asio::awaitable<bool> write(std::string_view bytes);
  // What the socket takes at once; the rest is lost.
  void write_now(std::string_view bytes);
  // Says that nothing more will come, and reads away what the peer still sends, for a moment: closing a socket that has unread
  // input makes the kernel reset the connection, which can take the last response with it.
  asio::awaitable<void> linger();

  // While an answer is computed nobody reads the socket, so a departing client would go unnoticed. `on_gone` is called once when
  // the peer closes, resets, or half-closes (unless Manners::half_close says that such a one is still there).
  void watch(std::function<void()> on_gone);
  void unwatch();
  // For a peer that has sent more (a pipelined request): the watch must leave those bytes alone and cannot see past them,
  // but the kernel can. Cheap enough to ask every few seconds.
  bool hung_up() const;

  bool broken() const { return broken_; }
  bool stalled() const { return stalled_; }  // broken, because the peer took nothing
  void drop();                               // now, from any state: everything awaited on the socket ends
  void close();                              // after the last response

  bool reading = false;  // a request is coming in
  bool busy = false;     // a request is being answered, so a drain must not close it yet

 private:
  asio::awaitable<bool> write_encrypted(std::string_view bytes);
  void wait_for_input();
  void wait_for_reset();
  void look_again();
  void on_input(const boost::system::error_code& error);
  void mark_gone();

  Socket socket_;
  const Limits& limits_;
  Manners manners_;
  std::unique_ptr<TlsStream> tls_;
  asio::steady_timer timer_;
  std::unique_ptr<asio::steady_timer> look_timer_;
  std::string peer_;
  bool local_ = false;
  std::function<void()> on_gone_;
  unsigned deadline_round_ = 0;
  unsigned watch_round_ = 0;
  bool expired_ = false;
  bool broken_ = false;
  bool stalled_ = false;
};

}  // namespace k3::server
