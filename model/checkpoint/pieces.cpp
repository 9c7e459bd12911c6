#include "model/checkpoint/pieces.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <new>
#include <system_error>
#include <thread>

#include "model/checkpoint/copies.hpp"

namespace k3::checkpoint {
namespace {

constexpr auto progress_period = std::chrono::milliseconds(200);
constexpr unsigned most_threads = 64;

struct Source {
  FileHandle handle;
  std::string name;
  std::atomic<std::uint64_t>* busy = nullptr;  // bytes on their way from its drive
};

// What the workers share. Counters are atomics; the error and the end are under the mutex.
struct Run {
  std::span<const File> files;
  std::span<const Piece> pieces;
  const PieceWork& work;
  std::vector<std::vector<Source>> sources{};       // [files], of each its copies; none where no piece lies
  std::deque<std::atomic<std::uint64_t>> drives{};  // see Source::busy
  std::atomic<std::size_t> next{0};
  std::atomic<std::uint64_t> done_bytes{0};
  std::atomic<bool> stop{false};
  std::mutex mutex{};
  std::condition_variable finished{};
  unsigned running = 0;
  std::optional<Error> error{};

  Result<void> open_files() {
    sources.resize(files.size());
    for (const auto& piece : pieces) {
      if (!sources[piece.file].empty()) continue;
      if (auto opened = open_copies(files[piece.file], sources[piece.file]); !opened) return opened;
    }
    return {};
  }

  // One that can be opened is enough.
  Result<void> open_copies(const File& file, std::vector<Source>& into) {
    std::optional<Error> first;
    for (const Copy& copy : copies_of(file)) {
      auto handle = FileHandle::open(copy.path);
      if (!handle && !first) first = handle.error();
      if (!handle) continue;
      while (drives.size() <= copy.drive) drives.emplace_back(0);
      into.push_back({std::move(*handle), copy.path.string(), &drives[copy.drive]});
    }
    return into.empty() ? Result<void>(*first) : Result<void>();
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

  // On each copy until one does; the error is that of the first.
  Result<void> attempt(const Piece& piece) {
    std::vector<Source*> left;
    for (Source& source : sources[piece.file]) left.push_back(&source);
    std::optional<Error> first;
    while (!left.empty()) {
      const auto idlest =
          std::min_element(left.begin(), left.end(), [](const Source* a, const Source* b) { return *a->busy < *b->busy; });
      const auto done = attempt(piece, **idlest);
      if (done) return done;
      if (!first) first = done.error();
      left.erase(idlest);
    }
    return *first;
  }

  // An exception must not leave a thread: there it would end the process.
  Result<void> attempt(const Piece& piece, Source& source) {
    source.busy->fetch_add(piece.bytes, std::memory_order_relaxed);
    auto done = guarded(piece, source);
    source.busy->fetch_sub(piece.bytes, std::memory_order_relaxed);
    return done;
  }

  Result<void> guarded(const Piece& piece, const Source& source) const {
    try {
      return work(piece, source.handle, source.name);
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
