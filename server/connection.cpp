#include "server/connection.hpp"

#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <boost/asio/post.hpp>
#include <cerrno>

namespace k3::server {
namespace {

using boost::system::error_code;

// A reader as fast as the writer never makes it wait, and an answer can have 100 MB: after so many bytes the others get a turn.
constexpr std::size_t kBytesPerTurn = 256 * 1024;

void set_option(int descriptor, int level, int name, int value) {
  // A refusal is harmless: these only shorten how long a vanished peer goes unnoticed.
  static_cast<void>(::setsockopt(descriptor, level, name, &value, sizeof value));
}

// A peer that vanished without a word (power, Wi-Fi) never sends FIN or RST: probes find it in about a minute.
void configure(tcp::socket& socket, const Limits& limits) {
  const int descriptor = socket.native_handle();
  set_option(descriptor, IPPROTO_TCP, TCP_NODELAY, 1);
  set_option(descriptor, SOL_SOCKET, SO_KEEPALIVE, 1);
  set_option(descriptor, IPPROTO_TCP, TCP_KEEPIDLE, 30);
  set_option(descriptor, IPPROTO_TCP, TCP_KEEPINTVL, 10);
  set_option(descriptor, IPPROTO_TCP, TCP_KEEPCNT, 3);
  set_option(descriptor, IPPROTO_TCP, TCP_USER_TIMEOUT, static_cast<int>(limits.write_stall.count()));
  error_code ignored;
  socket.non_blocking(true, ignored);
}

}  // namespace

Connection::Connection(tcp::socket socket, const Limits& limits)
    : socket_(std::move(socket)), limits_(limits), timer_(socket_.get_executor()) {
  configure(socket_, limits_);
  error_code error;
  const auto endpoint = socket_.remote_endpoint(error);
  if (!error) peer_ = endpoint.address().to_string();
}

void Connection::arm(std::chrono::milliseconds duration) {
  expired_ = false;
  timer_.expires_after(duration);
  timer_.async_wait([weak = weak_from_this(), round = ++deadline_round_](const error_code& error) {
    const auto self = weak.lock();
    // The round tells a deadline that was met just before its timer fired from one that was missed.
    if (error || !self || self->deadline_round_ != round) return;
    self->expired_ = true;
    error_code ignored;
    self->socket_.cancel(ignored);
  });
}

void Connection::disarm() {
  ++deadline_round_;
  timer_.cancel();
}

asio::awaitable<bool> Connection::write(std::string_view bytes) {
  const auto self = shared_from_this();
  std::size_t this_turn = 0;
  while (!bytes.empty() && !broken_) {
    error_code error;
    const std::size_t taken = socket_.write_some(asio::buffer(bytes.substr(0, kBytesPerTurn)), error);
    if (!error) {
      bytes.remove_prefix(taken);
      this_turn += taken;
      if (this_turn < kBytesPerTurn) continue;
      this_turn = 0;
      co_await asio::post(socket_.get_executor(), kAsTuple);
      continue;
    }
    if (error != asio::error::would_block) {
      broken_ = true;
      break;
    }
    arm(limits_.write_stall);
    const auto waited = co_await socket_.async_wait(tcp::socket::wait_write, kAsTuple);
    disarm();
    if (std::get<0>(waited)) broken_ = true;
  }
  co_return !broken_;
}

void Connection::watch(std::function<void()> on_gone) {
  on_gone_ = std::move(on_gone);
  ++watch_round_;
  if (broken_) return mark_gone();
  wait_for_input();
}

void Connection::wait_for_input() {
  socket_.async_wait(tcp::socket::wait_read, [self = shared_from_this(), round = watch_round_](const error_code& error) {
    if (self->watch_round_ == round) self->on_input(error);
  });
}

void Connection::on_input(const error_code& error) {
  if (error) return;
  char byte = 0;
  const auto seen = ::recv(socket_.native_handle(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
  if (seen > 0) return;  // the next request, already: it stays in the socket until this one is answered
  if (seen < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) return wait_for_input();
  mark_gone();
}

void Connection::mark_gone() {
  broken_ = true;
  // Moved out first: the callback may end the watch, which clears the member it runs from.
  if (const auto callback = std::move(on_gone_)) callback();
}

void Connection::unwatch() {
  ++watch_round_;
  on_gone_ = {};
  error_code ignored;
  socket_.cancel(ignored);
}

bool Connection::hung_up() const {
  pollfd poll_entry{.fd = const_cast<tcp::socket&>(socket_).native_handle(), .events = POLLRDHUP, .revents = 0};
  return ::poll(&poll_entry, 1, 0) > 0;
}

void Connection::drop() {
  error_code ignored;
  socket_.close(ignored);
  mark_gone();
}

void Connection::close() {
  disarm();
  error_code ignored;
  socket_.shutdown(tcp::socket::shutdown_both, ignored);
  socket_.close(ignored);
}

}  // namespace k3::server
