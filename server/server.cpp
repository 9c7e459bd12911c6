#include "server/server.hpp"

#include <fmt/format.h>
#include <pthread.h>
#include <spdlog/spdlog.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/signal_set.hpp>
#include <csignal>
#include <ctime>
#include <list>
#include <thread>
#include <utility>

#include "server/app.hpp"
#include "server/client_wait.hpp"
#include "server/doors.hpp"
#include "server/run_board.hpp"
#include "server/workshop.hpp"

namespace k3::server {
namespace {

using boost::system::error_code;

// After the drain's deadline an aborted answer needs a moment to tell its client so.
constexpr std::chrono::milliseconds kLastWords{1000};
constexpr std::chrono::milliseconds kAcceptPause{100};

bool is_ignored(int signal) {
  struct sigaction action {};
  return ::sigaction(signal, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
}

// A door, and the pause after a failure to let somebody in.
struct Entrance {
  Entrance(Door open, asio::io_context& io) : door(std::move(open)), retry(io) {}
  Door door;
  asio::steady_timer retry;
};

// What counts as one address: whoever has an IPv6 address has 2^64 of them.
std::string neighbourhood(const std::string& peer) {
  error_code error;
  const auto address = asio::ip::make_address(peer, error);
  if (error || !address.is_v6() || address.to_v6().is_v4_mapped()) return peer;
  auto bytes = address.to_v6().to_bytes();
  std::fill(bytes.begin() + 8, bytes.end(), static_cast<unsigned char>(0));
  return asio::ip::address_v6(bytes).to_string();
}

asio::awaitable<void> tell_refusal(std::shared_ptr<Connection> connection, std::string bytes) {
  const bool written = co_await connection->write(bytes);
  if (written) co_await connection->linger();
  connection->close();
}

}  // namespace

struct Server::State {
  State(ServerOptions options, Access access, RequestLog log)
      : io(std::make_shared<asio::io_context>(1)),
        drain_timer(*io),
        signals(*io),
        app{.options = std::move(options), .access = std::move(access), .log = std::move(log), .io = io, .model = nullptr} {
    app.workshop = std::make_shared<Workshop>(*io, app.options.limits);
    app.runs = std::make_shared<RunBoard>(app);
  }

  std::shared_ptr<asio::io_context> io;
  std::list<Entrance> entrances;
  std::shared_ptr<TlsContext> tls;
  std::size_t refusing = 0;
  asio::steady_timer drain_timer;
  asio::signal_set signals;
  App app;
  std::string url;
  std::uint16_t port = 0;
  std::thread thread;

  Result<void> listen(const asio::ip::address& address);
  asio::awaitable<void> accept_all(Entrance& entrance);
  void take(Socket socket);
  void begin_session(const std::shared_ptr<Connection>& connection);
  void refuse(const std::shared_ptr<Connection>& connection);
  void begin_drain(std::chrono::milliseconds deadline);
  void drain_on_signal(const error_code& error, int signal);
  void finish_if_idle();
  void run();
};

Result<void> Server::State::listen(const asio::ip::address& address) {
  const auto& options = app.options;
  if (!options.tls_certificate.empty() || !options.tls_key.empty()) {
    if (options.tls_certificate.empty() || options.tls_key.empty())
      return fail(ErrorCode::invalid_argument, "TLS takes two files: a certificate and its key");
    auto made = TlsContext::create(options.tls_certificate, options.tls_key);
    if (!made) return made.error();
    tls = std::move(*made);
  }
  if (!options.unix_socket.empty()) {
    auto door = Door::local(*io, options.unix_socket);
    if (!door) return door.error();
    entrances.emplace_back(std::move(*door), *io);
    url = "unix:" + options.unix_socket.string();
  }
  if (options.tcp) {
    auto door = Door::tcp(*io, address, options.port);
    if (!door) return door.error();
    port = door->port();
    url = fmt::format("{}://{}:{}", tls ? "https" : "http", address.is_v6() ? "[" + address.to_string() + "]" : address.to_string(),
                      port);
    entrances.emplace_back(std::move(*door), *io);
  }
  if (entrances.empty()) return fail(ErrorCode::invalid_argument, "nowhere to listen: neither a port nor a Unix socket");
  return {};
}

void Server::State::take(Socket socket) {
  auto connection = std::make_shared<Connection>(std::move(socket), app.options.limits,
                                                 Connection::Manners{.tls = tls, .half_close = app.options.half_close});
  const auto& limits = app.options.limits;
  bool full = false;
  if (connection->local()) {
    full = app.local_connections >= limits.connections;
  } else {
    const auto known = app.per_address.find(neighbourhood(connection->peer()));
    full = app.connections.size() - app.local_connections >= limits.connections ||
           (known != app.per_address.end() && known->second >= limits.connections_per_address);
  }
  if (full) {
    refuse(connection);
  } else {
    begin_session(connection);
  }
}

// Without reading the request, and without taking one of the places.
void Server::State::refuse(const std::shared_ptr<Connection>& connection) {
  ++app.metrics.connections_refused;
  // A handshake costs more than it is worth here, and a crowd is not talked to one by one.
  if (connection->encrypted() || refusing >= app.options.limits.refusals) return connection->close();
  const std::string body = error_json({.status = 503, .message = "too many connections", .code = "too_many_connections"});
  std::string bytes = fmt::format(
      "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nRetry-After: 5\r\nContent-Length: {}\r\n"
      "Connection: close\r\n\r\n{}",
      body.size(), body);
  ++refusing;
  asio::co_spawn(*io, tell_refusal(connection, std::move(bytes)), [this](const std::exception_ptr&) { --refusing; });
}

void Server::State::begin_session(const std::shared_ptr<Connection>& connection) {
  const std::string peer = connection->local() ? std::string() : neighbourhood(connection->peer());
  app.connections.insert(connection.get());
  ++(connection->local() ? app.local_connections : app.per_address[peer]);
  asio::co_spawn(*io, run_session(connection, app), [this, connection, peer](const std::exception_ptr& failure) {
    try {
      if (failure) std::rethrow_exception(failure);
    } catch (const std::exception& error) {
      spdlog::error("session with {} failed: {}", connection->peer(), error.what());
    }
    connection->close();
    app.connections.erase(connection.get());
    if (connection->local()) {
      --app.local_connections;
    } else if (--app.per_address[peer] == 0) {
      app.per_address.erase(peer);
    }
    finish_if_idle();
  });
}

asio::awaitable<void> Server::State::accept_all(Entrance& entrance) {
  auto& acceptor = entrance.door.acceptor();
  std::size_t failures = 0;
  while (acceptor.is_open()) {
    Socket socket(*io);
    const auto accepted = co_await acceptor.async_accept(socket, kAsTuple);
    const error_code error = std::get<0>(accepted);
    if (error == asio::error::operation_aborted) break;
    if (!error) {
      if (failures > 0) spdlog::warn("connections are accepted again, after {} failures", std::exchange(failures, 0));
      take(std::move(socket));
      continue;
    }
    // Whoever had gone before it was accepted is no trouble of this server.
    if (error == asio::error::connection_aborted) continue;
    // Out of descriptors, most likely: trying again at once would only burn the CPU that is to free some, and fill the log.
    if (failures++ == 0) spdlog::warn("cannot accept a connection: {}", error.message());
    ++app.metrics.accept_failures;
    entrance.retry.expires_after(kAcceptPause);
    const auto waited = co_await entrance.retry.async_wait(kAsTuple);
    static_cast<void>(waited);
  }
}

void Server::State::begin_drain(std::chrono::milliseconds deadline) {
  app.draining = true;
  app.drain_ends = Clock::now() + deadline;
  app.runs->expect_nobody();
  drain_timer.expires_after(deadline);
  drain_timer.async_wait([this](const error_code& error) {
    // Without connections the drain is over; a timer that had expired by then could not be cancelled any more.
    if (error || app.connections.empty()) return;
    for (ClientWait* wait : app.waits) wait->abort();
    drain_timer.expires_after(kLastWords);
    drain_timer.async_wait([this](const error_code& cancelled) {
      if (cancelled) return;
      // Dropping one may end its session, which edits the set.
      const auto connections = app.connections;
      for (Connection* connection : connections) connection->drop();
    });
  });
  finish_if_idle();
}

// While answers run, the acceptor stays open: load balancers must be told that this server is going. After the last one it closes,
// the connections that wait for a request are dropped, and when all sessions have ended nothing is left for the thread to do.
void Server::State::finish_if_idle() {
  if (!app.draining || !app.waits.empty()) return;
  for (auto& entrance : entrances) {
    entrance.door.close();
    entrance.retry.cancel();
  }
  const auto connections = app.connections;
  for (Connection* connection : connections) {
    // Whoever is half way through a request is told, when it is there, that nobody will answer it.
    if (!connection->busy && !connection->reading) connection->drop();
  }
  if (!app.connections.empty()) return;
  drain_timer.cancel();
  error_code ignored;
  signals.clear(ignored);   // what comes from now on acts as it does by default
  signals.cancel(ignored);  // and is waited for no more
}

void Server::State::drain_on_signal(const error_code& error, int signal) {
  if (error) return;
  spdlog::info("signal {}: draining for at most {} ms", signal, app.options.drain_deadline.count());
  signals.async_wait([this](const error_code& over, int again) {
    if (over) return;
    spdlog::warn("signal {} again: ending at once", again);
    entrances.clear();
    error_code ignored;
    signals.clear(ignored);  // gives the signals their default action back
    static_cast<void>(std::raise(again));
  });
  begin_drain(app.options.drain_deadline);
}

void Server::State::run() {
  // So that `top -H` tells what the network costs from what the model does.
  ::pthread_setname_np(::pthread_self(), "k3-http");
  for (;;) {
    try {
      io->run();
      return;
    } catch (const std::exception& error) {
      spdlog::error("server: {}", error.what());
    }
  }
}

Server::Server(std::unique_ptr<State> state) : state_(std::move(state)) {}

Result<std::unique_ptr<Server>> Server::bind(ServerOptions options) {
  error_code error;
  const auto address =
      options.host == "localhost" ? asio::ip::make_address("127.0.0.1", error) : asio::ip::make_address(options.host, error);
  if (error) {
    return Error{.code = ErrorCode::invalid_argument,
                 .message = "not an address to bind to",
                 .expected = "a numeric address or localhost",
                 .got = options.host};
  }
  auto access = Access::create(options, options.tcp && !address.is_loopback());
  if (!access) return access.error();
  auto log = RequestLog::create(options);
  if (!log) return log.error();
  auto state = std::make_unique<State>(std::move(options), std::move(*access), std::move(*log));
  if (auto listening = state->listen(address); !listening) return listening.error();
  state->app.started = static_cast<std::int64_t>(std::time(nullptr));
  state->app.on_wait_ended = [raw = state.get()] { raw->finish_if_idle(); };
  return std::unique_ptr<Server>(new Server(std::move(state)));
}

Server::~Server() {
  drain(std::chrono::milliseconds(0));
  wait();
}

std::uint16_t Server::port() const { return state_->port; }
std::string Server::url() const { return state_->url; }

void Server::start() {
  for (auto& entrance : state_->entrances) {
    asio::co_spawn(*state_->io, state_->accept_all(entrance), [](const std::exception_ptr& failure) {
      if (failure) std::rethrow_exception(failure);
    });
  }
  state_->thread = std::thread([this] { state_->run(); });
}

void Server::set_model(std::shared_ptr<Model> model, std::shared_ptr<const text::Tokenizer> tokenizer) {
  auto trie = grammar::TokenTrie::of(*tokenizer);
  asio::post(*state_->io, [this, model = std::move(model), tokenizer = std::move(tokenizer), trie = std::move(trie)]() mutable {
    state_->app.model = std::move(model);
    state_->app.trie = std::move(trie);
    state_->app.tokenizer = std::move(tokenizer);
  });
}

void Server::set_load_left(std::chrono::seconds left) {
  asio::post(*state_->io, [this, left] { state_->app.load_left = left; });
}

void Server::drain(std::chrono::milliseconds deadline) {
  asio::post(*state_->io, [this, deadline] { state_->begin_drain(deadline); });
}

void Server::look_at_clock() {
  asio::post(*state_->io, [this] {
    for (ClientWait* wait : state_->app.waits) wait->look();
    state_->app.runs->look_at_clock();
  });
}

void Server::wait() {
  if (state_->thread.joinable()) state_->thread.join();
}

int run_until_signal(Server& server) {
  auto& state = *server.state_;
  asio::post(*state.io, [&state] {
    error_code ignored;
    state.signals.add(SIGTERM, ignored);
    state.signals.add(SIGINT, ignored);
    // A terminal that closes. Whoever started this with nohup wants it to outlive the terminal.
    if (!is_ignored(SIGHUP)) state.signals.add(SIGHUP, ignored);
    state.signals.async_wait([&state](const error_code& error, int signal) { state.drain_on_signal(error, signal); });
  });
  server.wait();
  return 0;
}

}  // namespace k3::server
