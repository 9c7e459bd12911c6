// io_uring, driven by the model thread. What is used beyond plain reads (deferred task work, registered files and buffers) is tried
// and done without where it is refused: kernels are patched and containers filter, so a version number says nothing.
#include <liburing.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <cerrno>
#include <cstring>
#include <vector>

#include "model/experts/descriptor.hpp"
#include "model/experts/reader.hpp"

namespace k3::experts {

namespace {

// liburing 2.3 declares io_uring_enable_rings() and does not export it.
int enable_rings(int fd) {
  return ::syscall(__NR_io_uring_register, fd, IORING_REGISTER_ENABLE_RINGS, nullptr, 0) < 0 ? -errno : 0;
}

class RingReader final : public Reader {
 public:
  RingReader() = default;
  ~RingReader() override {
    assert(in_flight_ == 0 && "buffers must outlive their reads");
    if (ring_open_) io_uring_queue_exit(&ring_);
  }

  Result<void> open(const ReaderSetup& setup);

  void submit(Completion& completion) override;
  void flush() override;
  std::size_t reap(FunctionRef<void(Completion&)> done) override;
  void wait() override;
  int wake_fd() const override { return wake_.get(); }
  void clear_wake() override {
    std::uint64_t count = 0;
    [[maybe_unused]] const auto n = ::read(wake_.get(), &count, sizeof count);  // EAGAIN when already clear
  }
  std::size_t in_flight() const override { return in_flight_; }
  std::string_view name() const override { return "io_uring"; }

 private:
  int open_ring(unsigned entries);
  void register_what_is_allowed(const ReaderSetup& setup);
  bool buffer_registered(std::uint32_t slot);
  void prepare(io_uring_sqe* sqe, Completion& completion);
  void fail_prepared(int error);
  void refuse(Completion& completion, int error);

  enum class Buffer : std::uint8_t { untried, registered, refused };

  io_uring ring_{};
  bool ring_open_ = false, started_ = false, disabled_ = false;
  Descriptor wake_;
  std::size_t in_flight_ = 0;
  CompletionQueue prepared_;  // have an entry in the submission queue that the kernel has not taken
  CompletionQueue refused_;   // the kernel will never answer for these
  int broken_ = 0;            // the errno that made the ring unusable
  bool files_registered_ = false;
  std::byte* memory_ = nullptr;
  std::size_t slot_bytes_ = 0;
  std::vector<Buffer> buffers_;  // [slots]
};

int RingReader::open_ring(unsigned entries) {
  // Best first. DEFER_TASKRUN runs completions only when we ask, TASKRUN_FLAG lets a peek know that it must ask. A ring made
  // disabled takes its single issuer from whoever enables it, the thread of the first submit, instead of from its maker.
  constexpr std::array<unsigned, 4> kFlags = {
      IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN | IORING_SETUP_TASKRUN_FLAG | IORING_SETUP_R_DISABLED,
      IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_COOP_TASKRUN | IORING_SETUP_TASKRUN_FLAG | IORING_SETUP_R_DISABLED,
      IORING_SETUP_COOP_TASKRUN | IORING_SETUP_TASKRUN_FLAG,
      0,
  };
  int error = 0;
  for (const unsigned flags : kFlags) {
    io_uring_params params{};
    params.flags = flags;
    error = io_uring_queue_init_params(entries, &ring_, &params);
    if (error == 0) {
      ring_open_ = true;
      disabled_ = (flags & IORING_SETUP_R_DISABLED) != 0;
      return 0;
    }
  }
  return error;
}

Result<void> RingReader::open(const ReaderSetup& setup) {
  wake_ = Descriptor(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  if (!wake_) return fail(ErrorCode::io, std::string("cannot make an eventfd: ") + std::strerror(errno));
  if (const int error = open_ring(std::clamp(setup.depth, 1U, 4096U)); error != 0) {
    return fail(ErrorCode::unsupported, std::string("io_uring is refused here: ") + std::strerror(-error));
  }
  io_uring_probe* probe = io_uring_get_probe_ring(&ring_);
  const bool reads = probe != nullptr && io_uring_opcode_supported(probe, IORING_OP_READ) != 0;
  io_uring_free_probe(probe);
  if (!reads) return fail(ErrorCode::unsupported, "this io_uring has no plain read");
  if (const int error = io_uring_register_eventfd(&ring_, wake_.get()); error != 0) {
    return fail(ErrorCode::unsupported, std::string("io_uring takes no eventfd here: ") + std::strerror(-error));
  }
  register_what_is_allowed(setup);
  return {};
}

void RingReader::register_what_is_allowed(const ReaderSetup& setup) {
  const auto files = static_cast<unsigned>(setup.files.size());
  files_registered_ = files > 0 && io_uring_register_files(&ring_, setup.files.data(), files) == 0;
  // A registered buffer is pinned, so registering all slots now would fault in the whole budget before the first token. The table
  // is made empty, and a slot enters it with its first read. A table beyond the kernel's limit is simply refused.
  memory_ = setup.memory;
  slot_bytes_ = setup.slot_bytes;
  const bool table = setup.slots > 0 && io_uring_register_buffers_sparse(&ring_, static_cast<unsigned>(setup.slots)) == 0;
  buffers_.assign(setup.slots, table ? Buffer::untried : Buffer::refused);
}

bool RingReader::buffer_registered(std::uint32_t slot) {
  Buffer& state = buffers_[slot];
  if (state == Buffer::untried) {
    const iovec range{memory_ + slot * slot_bytes_, slot_bytes_};
    const __u64 tag = 0;
    const int taken = io_uring_register_buffers_update_tag(&ring_, slot, &range, &tag, 1);
    state = taken == 1 ? Buffer::registered : Buffer::refused;
    // The usual reason is the locked-memory limit, which the next slot would meet as well.
    if (state == Buffer::refused) std::replace(buffers_.begin(), buffers_.end(), Buffer::untried, Buffer::refused);
  }
  return state == Buffer::registered;
}

void RingReader::prepare(io_uring_sqe* sqe, Completion& completion) {
  const int file = files_registered_ ? static_cast<int>(completion.file) : completion.fd;
  if (buffer_registered(completion.slot)) {
    io_uring_prep_read_fixed(sqe, file, completion.into, completion.length, completion.offset, static_cast<int>(completion.slot));
  } else {
    io_uring_prep_read(sqe, file, completion.into, completion.length, completion.offset);
  }
  // A large direct read can block its submitter for milliseconds while the request is split; a worker thread of the kernel does it
  // instead.
  sqe->flags |= IOSQE_ASYNC;
  if (files_registered_) sqe->flags |= IOSQE_FIXED_FILE;
  io_uring_sqe_set_data(sqe, &completion);
}

void RingReader::submit(Completion& completion) {
  ++in_flight_;
  if (!started_) {
    started_ = true;
    if (disabled_) broken_ = enable_rings(ring_.ring_fd);
  }
  io_uring_sqe* sqe = broken_ == 0 ? io_uring_get_sqe(&ring_) : nullptr;
  if (sqe == nullptr && broken_ == 0) {
    flush();
    sqe = broken_ == 0 ? io_uring_get_sqe(&ring_) : nullptr;
  }
  if (sqe == nullptr) {
    refuse(completion, broken_ != 0 ? broken_ : -EAGAIN);
    return;
  }
  prepare(sqe, completion);
  prepared_.push(completion);
}

void RingReader::flush() {
  // EAGAIN is the kernel short of memory, EBUSY a completion queue to be emptied first: both pass, but not for ever in a row.
  constexpr int kMaxTries = 1000;
  for (int tries = 0; !prepared_.empty() && broken_ == 0;) {
    const int taken = io_uring_submit(&ring_);
    for (int i = 0; i < taken; ++i) prepared_.pop();
    if (taken > 0) continue;
    if (taken == -EBUSY) return;  // reap() flushes again
    if (taken != 0 && taken != -EINTR && taken != -EAGAIN) return fail_prepared(taken);
    if (++tries == kMaxTries) return fail_prepared(-EIO);
  }
}

void RingReader::fail_prepared(int error) {
  // The entries stay in the queue, pointing at completions that are about to be answered; so nothing may be submitted any more.
  broken_ = error;
  while (Completion* completion = prepared_.pop()) {
    refuse(*completion, error);
  }
}

void RingReader::refuse(Completion& completion, int error) {
  completion.result = error;
  refused_.push(completion);
  const std::uint64_t one = 1;  // the kernel will not wake anyone for it
  [[maybe_unused]] const auto n = ::write(wake_.get(), &one, sizeof one);
}

std::size_t RingReader::reap(FunctionRef<void(Completion&)> done) {
  std::size_t count = 0;
  CompletionQueue refused;
  std::swap(refused, refused_);
  while (Completion* completion = refused.pop()) {
    --in_flight_;
    ++count;
    done(*completion);
  }
  // Until a peek finds nothing: only such a peek runs deferred task work, and work left over would have had its wake-up cleared
  // already.
  std::array<io_uring_cqe*, 32> ready;
  while (in_flight_ > 0) {
    const unsigned n = io_uring_peek_batch_cqe(&ring_, ready.data(), static_cast<unsigned>(ready.size()));
    if (n == 0) break;
    for (unsigned i = 0; i < n; ++i) {
      auto& completion = *static_cast<Completion*>(io_uring_cqe_get_data(ready[i]));
      completion.result = ready[i]->res;
      --in_flight_;
      ++count;
      done(completion);
    }
    io_uring_cq_advance(&ring_, n);
  }
  flush();
  return count;
}

void RingReader::wait() {
  assert(in_flight_ > 0);
  flush();
  if (!refused_.empty()) return;
  io_uring_cqe* cqe = nullptr;
  int error = 0;
  do {
    error = io_uring_wait_cqe(&ring_, &cqe);
  } while (error == -EINTR || error == -EAGAIN);
  assert(error == 0 && "a ring is drained on the thread that submits to it");
}

}  // namespace

Result<std::unique_ptr<Reader>> make_ring_reader(const ReaderSetup& setup) {
  auto reader = std::make_unique<RingReader>();
  if (const auto opened = reader->open(setup); !opened) return opened.error();
  return std::unique_ptr<Reader>(std::move(reader));
}

}  // namespace k3::experts
