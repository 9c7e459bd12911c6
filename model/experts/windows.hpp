// From the tensors of an expert to aligned reads, and from the results of reads to "done", "again" or "failed". No I/O here.
#pragma once

#include "model/experts/layout.hpp"

namespace k3::experts {

// Aligned reads are made in this size; it is also a page, so buffered reads lose nothing by it. Wherever a file system asks for 512
// bytes, 4096 do as well; one that asks for more is read buffered.
inline constexpr std::size_t kAlignment = 4096;

constexpr std::uint64_t align_down(std::uint64_t n) { return n & ~std::uint64_t{kAlignment - 1}; }
constexpr std::uint64_t align_up(std::uint64_t n) { return align_down(n + kAlignment - 1); }

// The enclosing aligned range of tensors that lie together.
struct Window {
  std::uint32_t file = 0;
  std::uint64_t offset = 0;  // in the file, aligned
  std::uint64_t length = 0;  // aligned; may reach past the end of the file, whose last sector a direct read can only get so
  std::uint64_t needed = 0;  // bytes from `offset` that must arrive; the rest is padding
  std::uint64_t at = 0;      // in the slot, aligned
};

struct WindowPlan {
  std::array<Window, 6> windows;
  std::size_t count = 0;
  std::array<std::uint64_t, 6> part_at{};  // of each tensor, in the slot
  std::uint64_t bytes = 0;                 // of the slot used
};

// Tensors whose windows touch share one read: in released shards all six do.
WindowPlan plan_windows(const Pieces& pieces);

// What one read of at most `most` bytes (a multiple of kAlignment; 0: no bound) takes of a window, `from` bytes into it: a window
// of its own. And how many of them the windows of one expert come to at most, if they fill `bytes`.
Window piece_of(const Window& window, std::uint64_t from, std::uint64_t most);
std::size_t most_reads(std::uint64_t bytes, std::uint64_t most);

// How far one window has come. A read may return less than asked for, and be told to try again; both are bounded.
class ReadProgress {
 public:
  enum class Outcome { again, done, truncated, failed };

  void begin(const Window& window);
  Outcome advance(std::int32_t result);  // bytes read, or -errno

  // The next read to make, relative to the window.
  std::uint64_t next_offset() const { return base_; }
  std::uint32_t next_length() const;
  std::uint64_t filled() const { return filled_; }

  // Interrupted, refused for the moment or no byte further, in a row. A disk that works needs none; a signal storm, a few.
  static constexpr int kMaxStalls = 64;

 private:
  bool stalled() { return ++stalls_ > kMaxStalls; }

  std::uint64_t length_ = 0, needed_ = 0;
  std::uint64_t base_ = 0;    // aligned
  std::uint64_t filled_ = 0;  // bytes of the window that are good
  int stalls_ = 0;
};

// Of a window whose progress ended so, with the last read's result; `whose` says what lies in it.
Error read_error(const std::string& whose, const std::string& file, const Window& window, const ReadProgress& progress,
                 ReadProgress::Outcome outcome, std::int32_t result);

}  // namespace k3::experts
