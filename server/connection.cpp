#include "server/connection.hpp"

#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <cerrno>
#include <cstring>

namespace k3::server {
namespace {

using boost::system::error_code;

// A reader as fast as the writer never makes it wait, and an answer can have 100 MB: after so many bytes the others get a turn.
constexpr std::size_t kBytesPerTurn = 256 * 1024;

// Behind it a peer's bytes hide its leaving from the watch: with TLS its farewell is such bytes, so it is asked for soon.
constexpr std::chrono::milliseconds kLook{100};

void set_option(int descriptor, int level, int name, int value) {
  // A refusal is harmless: these only shorten how long a vanished peer goes unnoticed.
  static_cast<void>(::setsockopt(descriptor, level, name, &value, sizeof value));
}

// A peer that vanished without a word (power, Wi-Fi) never sends FIN or RST: probes find it in about a minute.
void configure(int descriptor, const Limits& limits) {
  set_option(descriptor, IPPROTO_TCP, TCP_NODELAY, 1);
  set_option(descriptor, SOL_SOCKET, SO_KEEPALIVE, 1);
  set_option(descriptor, IPPROTO_TCP, TCP_KEEPIDLE, 30);
  set_option(descriptor, IPPROTO_TCP, TCP_KEEPINTVL, 10);
  set_option(descriptor, IPPROTO_TCP, TCP_KEEPCNT, 3);
  set_option(descriptor, IPPROTO_TCP, TCP_USER_TIMEOUT, static_cast<int>(limits.write_stall.count()));
}

bool is_local(const Socket& socket) {
  error_code error;
  return socket.local_endpoint(error).protocol().family() == AF_UNIX;
}

std::string address_of(const Socket& socket) {
  error_code error;
  const auto raw = socket.remote_endpoint(error);
  asio::ip::tcp::endpoint endpoint;
  if (error || raw.size() > endpoint.capacity()) return "unknown";
  std::memcpy(endpoint.data(), raw.data(), raw.size());
  endpoint.resize(raw.size());
  return endpoint.address().to_string();
}

}  // namespace

Connection::Connection(Socket socket, const Limits& limits, Manners manners)
    : socket_(std::move(socket)), limits_(limits), manners_(std::move(manners)), timer_(socket_.get_executor()) {
  local_ = is_local(socket_);
  peer_ = local_ ? "unix" : address_of(socket_);
  if (!local_) configure(socket_.native_handle(), limits_);
  error_code ignored;
  socket_.non_blocking(true, ignored);
  // Whoever may open the Unix socket is on this machine: there is no wire to listen at.
  if (manners_.tls && !local_) tls_ = std::make_unique<TlsStream>(socket_, *manners_.tls);
}

Connection::~Connection() = default;

asio::awaitable<bool> Connection::greet() {
  if (!tls_) co_return true;
  arm(limits_.header_deadline);
  const auto error = co_await tls_->handshake();
  disarm();
  co_return !error;
}

asio::awaitable<IoResult> Connection::read_some(asio::mutable_buffer space) {
  if (tls_) {
    const auto read = co_await tls_->read_some(space);
    co_return read;
  }
  const auto read = co_await socket_.async_read_some(space, kAsTuple);
  co_return read;
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
  if (tls_) {
    const bool written = co_await write_encrypted(bytes);
    co_return written;
  }
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
      stalled_ = error == asio::error::timed_out;  // TCP_USER_TIMEOUT was first to notice
      break;
    }
    arm(limits_.write_stall);
    const auto waited = co_await socket_.async_wait(Socket::wait_write, kAsTuple);
    disarm();
    if (std::get<0>(waited)) broken_ = true;
    stalled_ = stalled_ || expired_;
  }
  co_return !broken_;
}

asio::awaitable<bool> Connection::write_encrypted(std::string_view bytes) {
  while (!bytes.empty() && !broken_) {
    arm(limits_.write_stall);
    const auto piece = asio::buffer(bytes.substr(0, kBytesPerTurn));
    const auto written = co_await tls_->write_some(piece);
    disarm();
    if (std::get<0>(written)) broken_ = true;
    stalled_ = stalled_ || expired_;
    bytes.remove_prefix(std::get<1>(written));
  }
  co_return !broken_;
}

void Connection::write_now(std::string_view bytes) {
  error_code ignored;
  socket_.write_some(asio::buffer(bytes), ignored);
}

asio::awaitable<void> Connection::linger() {
  const auto self = shared_from_this();
  arm(limits_.linger);
  if (tls_) co_await tls_->shutdown();
  error_code ignored;
  socket_.shutdown(Socket::shutdown_send, ignored);
  std::array<char, 4096> scratch;
  const auto space = asio::buffer(scratch);
  while (!expired_) {
    const auto read = co_await socket_.async_read_some(space, kAsTuple);
    if (std::get<0>(read)) break;
  }
  disarm();
}

void Connection::watch(std::function<void()> on_gone) {
  on_gone_ = std::move(on_gone);
  ++watch_round_;
  if (broken_) return mark_gone();
  wait_for_input();
}

void Connection::wait_for_input() {
  socket_.async_wait(Socket::wait_read, [self = shared_from_this(), round = watch_round_](const error_code& error) {
    if (self->watch_round_ == round) self->on_input(error);
  });
}

void Connection::on_input(const error_code& error) {
  if (error) return;
  char byte = 0;
  const auto seen = ::recv(socket_.native_handle(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
  if (seen < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) return wait_for_input();
  if (seen > 0) {
    // The next request, already: it stays in the socket until this one is answered.
    if (tls_) look_again();
  } else if (seen == 0 && manners_.half_close) {
    wait_for_reset();
  } else {
    stalled_ = seen < 0 && errno == ETIMEDOUT;
    mark_gone();
  }
}

void Connection::look_again() {
  if (hung_up()) return mark_gone();
  if (!look_timer_) look_timer_ = std::make_unique<asio::steady_timer>(socket_.get_executor());
  look_timer_->expires_after(kLook);
  look_timer_->async_wait([weak = weak_from_this(), round = watch_round_](const error_code& error) {
    const auto self = weak.lock();
    if (!error && self && self->watch_round_ == round) self->look_again();
  });
}

// The peer's end of input stays readable for ever, so only its reset is still worth waiting for.
void Connection::wait_for_reset() {
  socket_.async_wait(Socket::wait_error, [self = shared_from_this(), round = watch_round_](const error_code& error) {
    if (!error && self->watch_round_ == round && self->hung_up()) self->mark_gone();
  });
}

void Connection::mark_gone() {
  broken_ = true;
  // Moved out first: the callback may end the watch, which clears the member it runs from.
  if (const auto callback = std::move(on_gone_)) callback();
}

void Connection::unwatch() {
  ++watch_round_;
  on_gone_ = {};
  if (look_timer_) look_timer_->cancel();
  error_code ignored;
  socket_.cancel(ignored);
}

bool Connection::hung_up() const {
  // Without being asked for, a reset and an end in both directions are told all the same.
  const short asked = manners_.half_close ? 0 : POLLRDHUP;
  pollfd poll_entry{.fd = const_cast<Socket&>(socket_).native_handle(), .events = asked, .revents = 0};
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
  socket_.shutdown(Socket::shutdown_both, ignored);
  socket_.close(ignored);
}

}  // namespace k3::server
