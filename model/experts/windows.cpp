#include "model/experts/windows.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>

namespace k3::experts {

WindowPlan plan_windows(const Pieces& pieces) {
  std::array<std::uint8_t, 6> order{0, 1, 2, 3, 4, 5};
  std::sort(order.begin(), order.end(), [&](std::uint8_t a, std::uint8_t b) {
    return std::pair(pieces[a].file, pieces[a].offset) < std::pair(pieces[b].file, pieces[b].offset);
  });
  WindowPlan plan;
  for (const std::uint8_t i : order) {
    const Piece& piece = pieces[i];
    const std::uint64_t start = align_down(piece.offset), end = piece.offset + piece.bytes;
    Window* last = plan.count == 0 ? nullptr : &plan.windows[plan.count - 1];
    if (last == nullptr || last->file != piece.file || start > last->offset + last->length) {
      last = &plan.windows[plan.count++];
      *last = Window{piece.file, start, 0, 0, plan.bytes};
    }
    last->needed = std::max(last->needed, end - last->offset);
    last->length = align_up(last->needed);
    plan.bytes = last->at + last->length;
    plan.part_at[i] = last->at + (piece.offset - last->offset);
  }
  return plan;
}

Window piece_of(const Window& window, std::uint64_t from, std::uint64_t most) {
  const std::uint64_t length = most == 0 ? window.length - from : std::min(most, window.length - from);
  return {window.file, window.offset + from, length, std::min(length, window.needed - from), window.at + from};
}

std::size_t most_reads(std::uint64_t bytes, std::uint64_t most) {
  const std::size_t windows = std::tuple_size_v<decltype(WindowPlan::windows)>;
  return most == 0 ? windows : windows + bytes / most;
}

void ReadProgress::begin(const Window& window) {
  length_ = window.length;
  needed_ = window.needed;
  base_ = filled_ = 0;
  stalls_ = 0;
}

std::uint32_t ReadProgress::next_length() const {
  // The kernel cuts a read at 2 GiB less a page; cutting at an aligned size keeps the remainder aligned.
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(length_ - base_, std::uint64_t{1} << 30));
}

ReadProgress::Outcome ReadProgress::advance(std::int32_t result) {
  if (result < 0) {
    if (result != -EINTR && result != -EAGAIN) return Outcome::failed;
    return stalled() ? Outcome::failed : Outcome::again;
  }
  const std::uint64_t end = base_ + static_cast<std::uint64_t>(result);
  if (end > filled_) {
    filled_ = end;
    stalls_ = 0;
  } else if (result == 0 || stalled()) {
    return Outcome::truncated;
  }
  if (filled_ >= needed_) return Outcome::done;
  // A direct read must start on a boundary, so the part of a sector that came is read again.
  base_ = align_down(filled_);
  return Outcome::again;
}

Error read_error(const std::string& whose, const std::string& file, const Window& window, const ReadProgress& progress,
                 ReadProgress::Outcome outcome, std::int32_t result) {
  const bool truncated = outcome == ReadProgress::Outcome::truncated;
  Error error = truncated ? fail(ErrorCode::corrupt, "the file ends within " + whose) : fail(ErrorCode::io, "cannot read " + whose);
  error.file = file;
  error.offset = static_cast<std::int64_t>(window.offset + progress.filled());
  error.expected = std::to_string(window.needed) + " bytes from byte " + std::to_string(window.offset);
  error.got = std::to_string(progress.filled()) + " bytes";
  if (!truncated) error.got += std::string(", then: ") + std::strerror(-result);
  return error;
}

}  // namespace k3::experts
