// The part of the trunk that does not fit into memory: read anew for each step, in row blocks, some blocks ahead of their use.
//
// A step passes the trunk from its first matrix to its last, so what comes next is known, and reading simply goes on in that order,
// around and around. Who asks for something else (a step that was cancelled half way, a prompt's chunk that needs no head) finds it
// read on the spot, and reading goes on from there.
#pragma once

#include <chrono>
#include <memory>
#include <stop_token>
#include <vector>

#include "model/checkpoint/weights.hpp"
#include "model/experts/files.hpp"
#include "model/experts/reader.hpp"
#include "model/experts/slot_memory.hpp"
#include "model/experts/windows.hpp"

namespace k3::trunk {

// Enough for a drive to be fast, and little enough that a window of a few hundred MB runs well ahead.
inline constexpr std::uint64_t usual_block_bytes = 16U << 20;
// A block, and what surrounds it in its sectors.
inline constexpr std::uint64_t usual_slot_bytes = usual_block_bytes + 2 * experts::kAlignment;

struct TrunkStreamOptions {
  std::uint64_t window_bytes = 0;                 // for slots; at least two are made
  std::uint64_t block_bytes = usual_block_bytes;  // of a matrix's rows, at most, unless 64 rows are more
  bool direct = true;
  unsigned load_threads = 4;  // of the pread backend
  std::chrono::steady_clock::time_point (*clock)() = std::chrono::steady_clock::now;
};

struct TrunkBlock {
  const std::byte* data = nullptr;  // [rows, row_bytes], as stored; not aligned
  std::size_t first = 0, rows = 0;  // of the matrix
};

struct TrunkCounters {
  std::uint64_t reads = 0, bytes = 0, misses = 0;  // misses: blocks that were not on their way when asked for
  std::chrono::nanoseconds waiting{};
};

class TrunkStream {
 public:
  // Used and destroyed on the thread that opens it.
  static Result<std::unique_ptr<TrunkStream>> open(const std::vector<checkpoint::File>& files,
                                                   std::vector<checkpoint::StreamedMatrix> matrices,
                                                   const TrunkStreamOptions& options, const experts::ReaderFactory& make_reader);
  TrunkStream(const TrunkStream&) = delete;
  TrunkStream& operator=(const TrunkStream&) = delete;
  ~TrunkStream();

  std::size_t blocks(std::size_t matrix) const { return first_block_[matrix + 1] - first_block_[matrix]; }
  // Blocks until block `block` of `matrix` is there; it is valid until the next call. Errors: io or corrupt, with file and offset;
  // asking again reads again. Cancelled, when `stop` is requested: what is on its way stays so, for whoever asks next.
  Result<TrunkBlock> wait(std::size_t matrix, std::size_t block, const std::stop_token& stop = {});

  std::size_t slots() const { return slots_.size(); }
  const TrunkCounters& counters() const { return counters_; }

 private:
  enum class State : std::uint8_t { free, loading, ready };
  struct Slot : experts::Completion {
    State state = State::free;
    std::size_t id = 0;  // of the block, over all matrices
    experts::Window window;
    experts::ReadProgress progress;
    std::uint64_t data_at = 0;  // of the block's first byte, in the slot
    std::optional<Error> error;
    std::uint32_t tried = 0;  // of the file's copies
  };
  struct Place {
    std::size_t matrix, first, rows;
  };

  TrunkStream() = default;
  std::size_t block_rows(const checkpoint::StreamedMatrix& matrix) const;
  Place place(std::size_t id) const;
  Slot* find(std::size_t id);
  Slot* fetch(std::size_t id, const std::stop_token& stop);
  Slot* make_room(std::size_t id, const std::stop_token& stop);
  void forget_far_from(std::size_t id);
  void read_ahead();
  void start(Slot& slot, std::size_t id);
  void aim(Slot& slot);
  void submit(Slot& slot);
  void finish(Slot& slot);
  std::size_t reap();
  bool wait_for_any(const std::stop_token& stop);
  Error describe(const Slot& slot, experts::ReadProgress::Outcome outcome) const;

  std::vector<checkpoint::StreamedMatrix> matrices_;
  std::vector<std::size_t> first_block_;  // [matrices + 1]
  experts::OpenFiles files_;
  experts::Replicas replicas_;
  experts::SlotMemory memory_;
  std::uint64_t block_bytes_ = 0, slot_bytes_ = 0;
  std::vector<Slot> slots_;  // never resized: the reader points into it
  Slot* in_use_ = nullptr;   // what the last wait() gave out
  std::size_t next_ = 0;     // the block that read_ahead() comes to
  std::unique_ptr<experts::Reader> reader_;
  std::chrono::steady_clock::time_point (*clock_)() = nullptr;
  TrunkCounters counters_;
};

}  // namespace k3::trunk
