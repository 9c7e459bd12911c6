// ExpertStream over any layout of files and any reader: expert_stream.cpp gives it a checkpoint and the system's reader, tests
// their own.
#pragma once

#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <optional>
#include <vector>

#include "model/experts/files.hpp"
#include "model/experts/layout.hpp"
#include "model/experts/reader.hpp"
#include "model/experts/slot_memory.hpp"
#include "model/experts/slot_pool.hpp"
#include "model/experts/windows.hpp"

namespace k3::experts {

Result<std::unique_ptr<ExpertStream>> open_stream(Layout layout, boost::asio::io_context& context, const StreamOptions& options,
                                                  const ReaderFactory& make_reader);
// What StreamOptions::backend asks for.
Result<std::unique_ptr<Reader>> make_system_reader(const ReaderSetup& setup, StreamOptions::Backend backend);

// The parts a stream is put together from.
struct StreamParts {
  Layout layout;
  OpenFiles files;
  std::size_t slots = 0, slot_bytes = 0;
  SlotMemory memory;
  ReadShape shape;
  std::chrono::steady_clock::time_point (*clock)() = std::chrono::steady_clock::now;
  std::unique_ptr<Reader> reader;
};

class Stream final : public ExpertStream {
 public:
  Stream(StreamParts parts, boost::asio::io_context& context);
  ~Stream() override;

  using ExpertStream::request;
  void request(std::span<const ExpertKey> keys, std::span<const float> worth) override;
  void guess(std::span<const ExpertKey> keys, std::size_t at_once) override;
  boost::asio::awaitable<Result<Lease>> acquire(ExpertKey key, std::stop_token stop) override;
  bool ready(ExpertKey key) const override;
  void reap() override { harvest(); }
  void await_memory() override { memory_.await_populated(); }
  boost::asio::awaitable<void> drain() override;

  StreamCounters counters() const override { return counters_; }
  std::size_t slots() const override { return pool_.size(); }
  std::size_t in_flight() const override { return open_reads_; }
  std::string_view backend() const override { return reader_->name(); }

 protected:
  void release(std::size_t slot) override;

 private:
  // One window, or a piece of one, on its way. Its Completion is what the reader holds.
  struct Read : Completion {
    Window window;
    ReadProgress progress;
    std::uint32_t tried = 0;  // of the file's copies
  };
  struct Load {
    std::vector<Read> reads;  // never resized: the reader points into it
    unsigned pending = 0;
    bool fresh = false;    // nobody has had it since it was read
    bool guessed = false;  // read before anybody asked
    std::optional<Error> error;
    ExpertBytes bytes;
  };
  // A coroutine asleep in acquire() or drain(), in whose frame this lives. Frames may outlive the stream, which then cuts `stream`.
  struct Waiter {
    Waiter(Stream& owner, std::optional<ExpertKey> wanted);
    Waiter(const Waiter&) = delete;
    Waiter& operator=(const Waiter&) = delete;
    ~Waiter();
    void wake();

    Stream* stream;
    std::optional<ExpertKey> key;     // none: waits until nothing is in flight
    std::optional<std::size_t> slot;  // pinned for us; none: waits for a slot, or failed
    std::optional<Error> error;
    std::uint64_t id;
    bool cancelled = false, woken = false;
    boost::asio::steady_timer timer;  // never expires; cancelling it posts the coroutine's resumption
  };
  struct OnWake;
  struct OnStop;

  std::optional<std::size_t> claim(ExpertKey key);
  Lease lease(std::size_t slot);
  void give_up(std::size_t slot);
  void start_wishes();
  void start_guesses();
  void start_load(std::size_t slot, ExpertKey key);
  void aim(Read& read) const;
  void harvest();
  void finish(Read& read);
  bool turn_to_another_copy(Read& read, ReadProgress::Outcome outcome);
  void complete(std::size_t slot);
  void submit_queued();
  void watch();
  void wake_slotless();
  void stop_waiter(std::uint64_t id);
  Error describe(const Read& read, ReadProgress::Outcome outcome) const;

  const Layout layout_;
  const OpenFiles files_;
  Replicas replicas_;
  const std::size_t slot_bytes_;
  const ReadShape shape_;
  boost::asio::io_context& context_;
  SlotMemory memory_;
  std::vector<Load> loads_;  // [slots]
  SlotPool pool_;
  std::unique_ptr<Reader> reader_;
  CompletionQueue queue_;  // reads beyond the queue depth
  std::size_t open_reads_ = 0;
  std::size_t guesses_at_once_ = 0;
  std::chrono::steady_clock::time_point (*const clock_)();
  std::chrono::steady_clock::time_point reading_since_;  // while any read is open
  boost::asio::posix::stream_descriptor wake_;
  bool watching_ = false;
  std::vector<Waiter*> waiters_;
  std::uint64_t next_waiter_ = 0;
  StreamCounters counters_;
  std::shared_ptr<Stream*> self_;  // handlers in the io_context hold it weakly
};

}  // namespace k3::experts
