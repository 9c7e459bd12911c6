// What all sessions of one server share. Touched only by the server's thread.
#pragma once

#include <boost/asio/io_context.hpp>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <set>

#include "model/text/tokenizer.hpp"
#include "model/ticket.hpp"
#include "server/access.hpp"
#include "server/metrics.hpp"
#include "server/request_log.hpp"
#include "server/server.hpp"

namespace k3::server {

using Clock = std::chrono::steady_clock;

class ClientWait;
class RunBoard;
class Workshop;

struct App {
  ServerOptions options;
  Access access;
  RequestLog log;
  std::shared_ptr<asio::io_context> io;
  std::shared_ptr<Model> model;                        // null while loading
  std::shared_ptr<const text::Tokenizer> tokenizer{};  // null while loading
  std::shared_ptr<const grammar::TokenTrie> trie{};    // of the tokenizer
  std::int64_t started = 0;                            // seconds of Unix time
  std::optional<std::chrono::seconds> load_left{};     // where the load has said so
  bool draining = false;
  std::chrono::steady_clock::time_point drain_ends{};  // then, at the latest, this server is gone

  std::set<Connection*> connections{};
  std::map<std::string, std::size_t> per_address{};  // of those by the network
  std::size_t local_connections = 0;                 // by the Unix socket
  std::size_t body_bytes = 0;                        // promised to bodies being read
  std::set<ClientWait*> waits{};                     // answers under way
  std::function<void()> on_wait_ended{};             // a drain waits for it
  std::shared_ptr<RunBoard> runs{};                  // the model's jobs; never null once the server exists
  std::shared_ptr<Workshop> workshop{};  // last user of the options and the tokenizer: never null once the server exists
  Metrics metrics{};
  std::mt19937_64 random{std::random_device{}()};

  Clock::time_point now() const { return options.clock ? options.clock() : Clock::now(); }

  std::string random_hex(std::size_t digits) {
    std::string text;
    while (text.size() < digits) {
      for (std::uint64_t bits = random(), i = 0; i < 16 && text.size() < digits; ++i, bits >>= 4)
        text += "0123456789abcdef"[bits & 15];
    }
    return text;
  }
};

// One connection from first byte to close: requests are read, routed and logged, one after another.
asio::awaitable<void> run_session(std::shared_ptr<Connection> connection, App& app);

}  // namespace k3::server
