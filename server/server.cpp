#include "server/server.hpp"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/signal_set.hpp>
#include <csignal>
#include <ctime>
#include <thread>

#include "server/app.hpp"
#include "server/client_wait.hpp"
#include "server/run_board.hpp"
#include "server/workshop.hpp"

namespace k3::server {
namespace {

using boost::system::error_code;

// After the drain's deadline an aborted answer needs a moment to tell its client so.
constexpr std::chrono::milliseconds kLastWords{1000};

Error io_error(std::string what, const error_code& error) { return fail(ErrorCode::io, std::move(what) + ": " + error.message()); }

bool is_ignored(int signal) {
  struct sigaction action {};
  return ::sigaction(signal, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
}

}  // namespace

struct Server::State {
  explicit State(ServerOptions options, Access access)
      : io(std::make_shared<asio::io_context>(1)),
        acceptor(*io),
        drain_timer(*io),
        retry_timer(*io),
        signals(*io),
        app{.options = std::move(options), .access = std::move(access), .io = io, .model = nullptr} {
    app.workshop = std::make_shared<Workshop>(*io, app.options.limits);
    app.runs = std::make_shared<RunBoard>(app);
  }

  std::shared_ptr<asio::io_context> io;
  tcp::acceptor acceptor;
  asio::steady_timer drain_timer;
  asio::steady_timer retry_timer;
  asio::signal_set signals;
  App app;
  std::string url;
  std::uint16_t port = 0;
  std::thread thread;

  Result<void> listen(const asio::ip::address& address);
  asio::awaitable<void> accept_all();
  void take(tcp::socket socket);
  void begin_drain(std::chrono::milliseconds deadline);
  void finish_if_idle();
  void run();
};

Result<void> Server::State::listen(const asio::ip::address& address) {
  const tcp::endpoint endpoint(address, app.options.port);
  error_code error;
  acceptor.open(endpoint.protocol(), error);
  // Without it a restart would have to wait for the old connections' TIME_WAIT. It does not let two servers share a port.
  if (!error) acceptor.set_option(tcp::acceptor::reuse_address(true), error);
  if (!error) acceptor.bind(endpoint, error);
  if (!error) acceptor.listen(asio::socket_base::max_listen_connections, error);
  if (error) return io_error(fmt::format("cannot listen on {} port {}", app.options.host, app.options.port), error);
  port = acceptor.local_endpoint(error).port();
  url = fmt::format("http://{}:{}", address.is_v6() ? "[" + address.to_string() + "]" : address.to_string(), port);
  return {};
}

void Server::State::take(tcp::socket socket) {
  auto connection = std::make_shared<Connection>(std::move(socket), app.options.limits);
  const std::string peer = connection->peer();
  const auto& limits = app.options.limits;
  if (app.connections.size() >= limits.connections || app.per_address[peer] >= limits.connections_per_address) {
    ++app.metrics.connections_refused;
    // Without reading the request: one write that fits any send buffer, and gone.
    const std::string body = error_json({.status = 503, .message = "too many connections", .code = "too_many_connections"});
    const std::string bytes = fmt::format(
        "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nRetry-After: 5\r\nContent-Length: {}\r\n"
        "Connection: close\r\n\r\n{}",
        body.size(), body);
    error_code ignored;
    connection->socket().write_some(asio::buffer(bytes), ignored);
    return connection->close();
  }
  app.connections.insert(connection.get());
  ++app.per_address[peer];
  asio::co_spawn(*io, run_session(connection, app), [this, connection, peer](const std::exception_ptr& failure) {
    try {
      if (failure) std::rethrow_exception(failure);
    } catch (const std::exception& error) {
      spdlog::error("session with {} failed: {}", peer, error.what());
    }
    connection->close();
    app.connections.erase(connection.get());
    if (--app.per_address[peer] == 0) app.per_address.erase(peer);
    finish_if_idle();
  });
}

asio::awaitable<void> Server::State::accept_all() {
  while (acceptor.is_open()) {
    tcp::socket socket(*io);
    const auto accepted = co_await acceptor.async_accept(socket, kAsTuple);
    const error_code error = std::get<0>(accepted);
    if (!error) {
      take(std::move(socket));
    } else if (error == asio::error::operation_aborted) {
      break;
    } else {
      // Out of descriptors, most likely: trying again at once would only burn the CPU that is to free some.
      spdlog::warn("cannot accept a connection: {}", error.message());
      retry_timer.expires_after(std::chrono::milliseconds(100));
      const auto waited = co_await retry_timer.async_wait(kAsTuple);
      static_cast<void>(waited);
    }
  }
}

void Server::State::begin_drain(std::chrono::milliseconds deadline) {
  app.draining = true;
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
  error_code ignored;
  acceptor.close(ignored);
  retry_timer.cancel();
  const auto connections = app.connections;
  for (Connection* connection : connections) {
    if (!connection->busy) connection->drop();
  }
  if (!app.connections.empty()) return;
  drain_timer.cancel();
  signals.cancel(ignored);
}

void Server::State::run() {
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
  auto access = Access::create(options, address.is_loopback());
  if (!access) return access.error();
  auto state = std::make_unique<State>(std::move(options), std::move(*access));
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
  asio::co_spawn(*state_->io, state_->accept_all(), [](const std::exception_ptr& failure) {
    if (failure) std::rethrow_exception(failure);
  });
  state_->thread = std::thread([this] { state_->run(); });
}

void Server::set_model(std::shared_ptr<Model> model, std::shared_ptr<const text::Tokenizer> tokenizer) {
  asio::post(*state_->io, [this, model = std::move(model), tokenizer = std::move(tokenizer)]() mutable {
    state_->app.model = std::move(model);
    state_->app.tokenizer = std::move(tokenizer);
  });
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
    state.signals.async_wait([&state](const error_code& error, int signal) {
      if (error) return;
      spdlog::info("signal {}: draining for at most {} ms", signal, state.app.options.drain_deadline.count());
      error_code cleared;
      state.signals.clear(cleared);  // gives the signals their default action back
      state.begin_drain(state.app.options.drain_deadline);
    });
  });
  server.wait();
  return 0;
}

}  // namespace k3::server
