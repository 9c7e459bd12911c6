#include "model/checkpoint/pieces.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <new>
#include <system_error>
#include <thread>

namespace k3::checkpoint {
namespace {

constexpr auto progress_period = std::chrono::milliseconds(200);
constexpr unsigned most_threads = 64;

// What the workers share. Counters are atomics; the error and the end are under the mutex.
struct Run {
  std::span<const File> files;
  std::span<const Piece> pieces;
  const PieceWork& work;
  std::vector<FileHandle> handles{};
  std::vector<std::string> names{};
  std::atomic<std::size_t> next{0};
  std::atomic<std::uint64_t> done_bytes{0};
  std::atomic<bool> stop{false};
  std::mutex mutex{};
  std::condition_variable finished{};
  unsigned running = 0;
  std::optional<Error> error{};

  Result<void> open_files() {
    handles.resize(files.size());
    names.resize(files.size());
    for (const auto& piece : pieces) {
      if (handles[piece.file].fd() >= 0) continue;
      names[piece.file] = files[piece.file].path.string();
      auto handle = FileHandle::open(files[piece.file].path);
      if (!handle) return handle.error();
      handles[piece.file] = std::move(*handle);
    }
    return {};
  }

  void worker() {
    while (!stop.load(std::memory_order_relaxed)) {
      const auto i = next.fetch_add(1, std::memory_order_relaxed);
      if (i >= pieces.size()) break;
      const auto result = attempt(pieces[i]);
      if (!result) {
        stop = true;
        const std::lock_guard lock(mutex);
        if (!error) error = result.error();
        break;
      }
      done_bytes.fetch_add(pieces[i].bytes, std::memory_order_relaxed);
    }
    const std::lock_guard lock(mutex);
    --running;
    finished.notify_one();
  }

  // An exception must not leave a thread: there it would end the process.
  Result<void> attempt(const Piece& piece) {
    try {
      return work(piece, handles[piece.file], names[piece.file]);
    } catch (const std::bad_alloc&) {
      return fail(ErrorCode::out_of_memory, "no memory for a buffer of " + std::to_string(piece.bytes) + " bytes");
    }
  }
};

}  // namespace

void append_pieces(std::vector<Piece>& pieces, const Tensor& tensor, std::uint64_t tag) {
  for (std::uint64_t at = 0; at < tensor.bytes; at += piece_bytes) {
    pieces.push_back({tensor.file, tensor.offset + at, std::min(piece_bytes, tensor.bytes - at), tag});
  }
}

Result<void> for_each_piece(std::span<const File> files, std::span<const Piece> pieces, unsigned threads, const PieceWork& work,
                            const Progress& progress) {
  Run run{.files = files, .pieces = pieces, .work = work};
  auto opened = run.open_files();
  if (!opened) return opened;
  std::uint64_t total = 0;
  for (const auto& piece : pieces) total += piece.bytes;
  const auto wanted =
      std::clamp<std::size_t>(threads, 1, std::min<std::size_t>(most_threads, std::max<std::size_t>(pieces.size(), 1)));
  {
    // Declared after `run`, so joined before it goes.
    std::vector<std::jthread> workers;
    std::unique_lock lock(run.mutex);
    for (std::size_t i = 0; i < wanted; ++i) {
      try {
        workers.emplace_back([&run] { run.worker(); });
        ++run.running;
      } catch (const std::system_error& refused) {
        // Fewer threads do the same work; none at all is an error.
        if (workers.empty()) return fail(ErrorCode::io, std::string("cannot start a thread: ") + refused.what());
        break;
      }
    }
    while (run.running > 0) {
      run.finished.wait_for(lock, progress_period);
      if (!progress) continue;
      lock.unlock();
      progress(run.done_bytes.load(std::memory_order_relaxed), total);
      lock.lock();
    }
  }
  if (run.error) return *run.error;
  return {};
}

}  // namespace k3::checkpoint
