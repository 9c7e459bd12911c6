// Every bound of the server in one place, so that their relations can be checked. Tests shrink them; the defaults are the contract.
#pragma once

#include <chrono>
#include <cstddef>

namespace k3::server {

struct Limits {
  // --- one request ---
  std::size_t header_bytes = 32 * 1024;
  std::size_t header_fields = 100;
  std::size_t body_bytes = 32 * 1024 * 1024;
  std::size_t json_depth = 64;
  std::size_t json_values = 4'000'000;  // in memory some 100 bytes each; a million messages, or four times a context in token ids
  std::size_t stops = 16;
  std::size_t stop_bytes = 1024;
  std::size_t tools = 128;
  std::size_t logit_bias = 1024;
  std::size_t top_logprobs = 20;
  // --- one connection: deadlines are cumulative, so that a slow drip does not renew them ---
  std::chrono::milliseconds header_deadline{10'000};
  std::chrono::milliseconds body_deadline{60'000};
  // After its first `body_grace` a body must have come at `body_rate` bytes a second on the whole.
  std::size_t body_rate = 1024;
  std::chrono::milliseconds body_grace{10'000};
  std::chrono::milliseconds idle{75'000};         // between two requests of a kept connection
  std::chrono::milliseconds write_stall{60'000};  // without the peer taking a byte
  std::chrono::milliseconds keepalive{10'000};    // between two signs of life of an answer that is not streamed
  std::chrono::milliseconds linger{1'000};        // how long a refused peer may go on sending before the socket is closed
  // --- the process ---
  std::size_t bodies_bytes = 512 * 1024 * 1024;    // of all bodies being read at the same time
  std::size_t inline_body_bytes = 64 * 1024;       // above it a body is worked through by the workshop, not by the network thread
  std::size_t workshop_bytes = 128 * 1024 * 1024;  // of all bodies in the workshop, waiting or being worked on
  std::size_t connections = 512;                   // by the network, and as many again by the Unix socket
  std::size_t connections_per_address = 64;        // of an IPv6 address its network of 64 bits counts
  std::size_t refusals = 64;                       // connections beyond the limits that are being told so; more are just closed
  std::size_t answers_per_key = 16;                // running and waiting ones of one API key
  std::size_t ticket_events = 4096;                // events a stream may lag behind the model before it is dropped
  // Of a run that a re-sent request may join: beyond it the run goes on, but is joined no more. Some 200 bytes each, more with
  // top_logprobs.
  std::size_t replay_events = 65'536;
  std::chrono::milliseconds rejoin_grace{5'000};  // a run whose client, an SDK, has left waits so long for it to ask again
};

constexpr bool consistent(const Limits& l) {
  return l.header_bytes >= 1024 && l.header_fields >= 8 && l.header_bytes < l.body_bytes && l.stop_bytes < l.body_bytes &&
         // Depth bounds the recursion of the JSON reader and writer; a frame of theirs is below 1 KiB, a thread's stack 8 MiB.
         l.json_depth >= 8 && l.json_depth <= 1000 &&
         // A kept connection may sit longer than a proxy's usual 60 s, or the proxy reuses a socket that is just being closed.
         l.idle.count() > 60'000 && l.header_deadline < l.idle && l.body_deadline >= l.header_deadline && l.body_rate > 0 &&
         l.connections_per_address <= l.connections && l.bodies_bytes >= l.body_bytes &&
         // The largest body must be admissible to an empty workshop.
         l.workshop_bytes >= l.body_bytes && l.ticket_events >= 64 && l.replay_events >= l.ticket_events;
}
static_assert(consistent(Limits{}));
// The slowest admissible upload of the largest body: 32 MiB in 60 s is 0.56 MB/s, which a loopback or LAN client always reaches.
static_assert(Limits{}.body_bytes / 60 < 1'000'000);

}  // namespace k3::server
