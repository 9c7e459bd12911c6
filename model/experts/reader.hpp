// The seam between the stream and the operating system: reads go in, completions come out, an eventfd tells when to look.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string_view>

#include "model/error.hpp"
#include "model/function_ref.hpp"

namespace k3::experts {

// One read. It lives in the slot it reads into (no allocation per read) and must not move or die between submit() and its reaping.
struct Completion {
  int fd = -1;
  std::uint32_t file = 0;  // index of `fd` among ReaderSetup::files
  std::uint32_t slot = 0;  // whose memory `into` points into
  std::uint32_t length = 0;
  std::uint64_t offset = 0;
  std::byte* into = nullptr;

  std::int32_t result = 0;  // bytes read, or -errno

  Completion* next = nullptr;  // belongs to the queue it is in
};

// Intrusive first-in-first-out.
class CompletionQueue {
 public:
  bool empty() const { return head_ == nullptr; }
  void push(Completion& completion) {
    completion.next = nullptr;
    (head_ == nullptr ? head_ : tail_->next) = &completion;
    tail_ = &completion;
  }
  Completion* pop() {
    Completion* first = head_;
    if (first != nullptr) head_ = first->next;
    return first;
  }

 private:
  Completion *head_ = nullptr, *tail_ = nullptr;
};

class Reader {
 public:
  virtual ~Reader() = default;

  // Takes the read; it may start as late as flush(). At most ReaderSetup::depth at a time. A refusal arrives as a completion.
  virtual void submit(Completion& completion) = 0;
  virtual void flush() = 0;
  // Hands over what has finished, without blocking; the callee may submit() again. Returns how many.
  virtual std::size_t reap(FunctionRef<void(Completion&)> done) = 0;
  // Blocks until reap() would hand something over. Only with reads in flight.
  virtual void wait() = 0;

  // Readable when something may have finished: a hint, its count means nothing. The reader keeps it open.
  virtual int wake_fd() const = 0;
  virtual void clear_wake() = 0;

  virtual std::size_t in_flight() const = 0;  // submitted and not reaped
  virtual std::string_view name() const = 0;
};

struct ReaderSetup {
  std::span<const int> files;
  std::byte* memory = nullptr;  // [slots][slot_bytes]
  std::size_t slots = 0, slot_bytes = 0;
  unsigned depth = 0;    // reads in flight, at most
  unsigned threads = 0;  // of the pread backend
};

// io_uring. Used on one thread, the one that submits first. Error: unsupported, where the kernel or the container refuses rings.
Result<std::unique_ptr<Reader>> make_ring_reader(const ReaderSetup& setup);
// A few threads that call pread().
Result<std::unique_ptr<Reader>> make_pread_reader(const ReaderSetup& setup);

using ReaderFactory = std::function<Result<std::unique_ptr<Reader>>(const ReaderSetup&)>;

}  // namespace k3::experts
