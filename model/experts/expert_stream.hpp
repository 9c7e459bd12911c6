// Where an expert's bytes come from, seen from the MoE loop: say what is wanted, do other work, await each.
//
// Everything here lives on the model thread. Reads go through a Reader (io_uring, or a pread pool where rings are refused) into
// slots of one global pool. A slot is Free, Loading, Ready or Pinned; a wait that is cancelled parks its slot, whose completion
// later makes it Ready (the bytes are good) or, on error, Free. The kernel cannot cancel a disk read in flight, so nothing here
// tries.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <chrono>
#include <memory>
#include <span>
#include <stop_token>
#include <string>

#include "model/checkpoint/checkpoint.hpp"
#include "model/experts/read_shape.hpp"

namespace k3::experts {

struct ExpertKey {
  std::uint32_t layer = 0, expert = 0;
  friend auto operator<=>(const ExpertKey&, const ExpertKey&) = default;
};

// Views into a slot: w1, w3 [inner, latent], w2 [latent, inner], MXFP4 as stored.
struct ExpertBytes {
  const std::uint8_t *w1 = nullptr, *w1_scale = nullptr, *w2 = nullptr, *w2_scale = nullptr, *w3 = nullptr, *w3_scale = nullptr;
};

class ExpertStream;

// Pins a Ready slot while it lives.
class Lease {
 public:
  Lease() = default;
  Lease(Lease&& other) noexcept;
  Lease& operator=(Lease&& other) noexcept;
  ~Lease();
  const ExpertBytes& bytes() const { return bytes_; }

 private:
  friend class ExpertStream;
  ExpertStream* stream_ = nullptr;
  std::size_t slot_ = 0;
  ExpertBytes bytes_;
};

struct StreamOptions {
  std::uint64_t budget_bytes = 0;  // for slots; at least one slot is made, and never more than there are experts
  bool direct = true;              // O_DIRECT; falls back to buffered with one warning where the file system refuses
  ReadShape shape;
  bool measure_shape = true;  // where it pays, and open() is given a checkpoint: `shape` is then what does best
  unsigned load_threads = 4;  // of the pread backend
  enum class Backend { automatic, ring, pread } backend = Backend::automatic;  // automatic: ring if a probe succeeds
  std::chrono::steady_clock::time_point (*clock)() = std::chrono::steady_clock::now;
};

// What a slot takes: the largest expert with the sectors around it.
std::uint64_t slot_bytes(const checkpoint::Checkpoint& checkpoint);

struct StreamCounters {
  std::uint64_t reads = 0, bytes = 0, hits = 0, misses = 0, errors = 0, parked = 0;
  std::uint64_t guesses = 0, guesses_used = 0;  // experts read before anybody asked for them, and those of them that somebody had
  std::chrono::nanoseconds reading{};           // while at least one read was in flight, as far as the model thread has looked
};

class ExpertStream {
 public:
  // `checkpoint` must outlive the stream. Construct, use and destroy on the model thread, which runs `context`.
  static Result<std::unique_ptr<ExpertStream>> open(const checkpoint::Checkpoint& checkpoint, boost::asio::io_context& context,
                                                    const StreamOptions& options);
  virtual ~ExpertStream() = default;

  // Names the experts about to be acquired, in the order of acquiring (ascending id): their reads start at once as far as slots
  // allow, the rest as slots come free. Replaces the previous wish list and ends guessing; reads already in flight go on. `worth`
  // [keys] is what each expert was to this step, from 0 up: slots go by it when one is needed. Empty: all alike.
  virtual void request(std::span<const ExpertKey> keys, std::span<const float> worth) = 0;
  void request(std::span<const ExpertKey> keys) { request(keys, {}); }
  // Names experts that may be wanted next, the likeliest first. They are read while the drive has nothing else to do, at most
  // `at_once` at a time, until the next request().
  virtual void guess(std::span<const ExpertKey> keys, std::size_t at_once) = 0;
  // Waits until the expert is in memory. Errors: cancelled (the slot is parked), io or corrupt (names file, offset, expected, got).
  // A key that was not requested is read now. The lease must be gone before the stream is.
  virtual boost::asio::awaitable<Result<Lease>> acquire(ExpertKey key, std::stop_token stop) = 0;
  // Whether acquire() would return at once.
  virtual bool ready(ExpertKey key) const = 0;
  // Non-blocking: harvests completions, starts wished-for reads. Called between experts while the thread computes.
  virtual void reap() = 0;
  // Blocks until the memory of all slots is there, which otherwise comes while the first tokens are computed: for measuring.
  virtual void await_memory() = 0;
  // Waits until no read is in flight (before destruction).
  virtual boost::asio::awaitable<void> drain() = 0;

  virtual StreamCounters counters() const = 0;
  virtual std::size_t slots() const = 0;
  virtual std::size_t in_flight() const = 0;
  virtual std::string_view backend() const = 0;  // "io_uring" or "pread"

 protected:
  friend class Lease;
  virtual void release(std::size_t slot) = 0;
  Lease make_lease(std::size_t slot, const ExpertBytes& bytes);
};

}  // namespace k3::experts
