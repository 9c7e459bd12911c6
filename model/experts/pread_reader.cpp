// Where rings are refused: a few threads that block in pread(). Two threads meet at one mutex; completions are handed back like the
// ring's, through a list and an eventfd.
#include <sys/eventfd.h>

#include <algorithm>
#include <cassert>
#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

#include "model/experts/descriptor.hpp"
#include "model/experts/reader.hpp"

namespace k3::experts {

namespace {

class PreadReader final : public Reader {
 public:
  explicit PreadReader(Descriptor wake) : wake_(std::move(wake)) {}

  ~PreadReader() override {
    assert(in_flight_ == 0 && "buffers must outlive their reads");
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    work_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }

  void start(unsigned threads) {
    for (unsigned i = 0; i < threads; ++i) threads_.emplace_back([this] { run(); });
  }

  void submit(Completion& completion) override {
    ++in_flight_;
    {
      const std::lock_guard lock(mutex_);
      waiting_.push(completion);
    }
    work_.notify_one();
  }

  void flush() override {}

  std::size_t reap(FunctionRef<void(Completion&)> done) override {
    CompletionQueue finished;
    {
      const std::lock_guard lock(mutex_);
      std::swap(finished, finished_);
    }
    std::size_t count = 0;
    while (Completion* completion = finished.pop()) {
      --in_flight_;
      ++count;
      done(*completion);
    }
    return count;
  }

  void wait() override {
    assert(in_flight_ > 0);
    std::unique_lock lock(mutex_);
    done_.wait(lock, [this] { return !finished_.empty(); });
  }

  int wake_fd() const override { return wake_.get(); }
  void clear_wake() override {
    std::uint64_t count = 0;
    [[maybe_unused]] const auto n = ::read(wake_.get(), &count, sizeof count);  // EAGAIN when already clear
  }
  std::size_t in_flight() const override { return in_flight_; }
  std::string_view name() const override { return "pread"; }

 private:
  void run() {
    std::unique_lock lock(mutex_);
    for (;;) {
      work_.wait(lock, [this] { return stopping_ || !waiting_.empty(); });
      if (stopping_) return;
      Completion& completion = *waiting_.pop();
      lock.unlock();
      const ssize_t n = ::pread(completion.fd, completion.into, completion.length, static_cast<off_t>(completion.offset));
      completion.result = n < 0 ? -errno : static_cast<std::int32_t>(n);
      lock.lock();
      finished_.push(completion);
      const std::uint64_t one = 1;
      [[maybe_unused]] const auto written = ::write(wake_.get(), &one, sizeof one);  // fails only when the count is full: awake
      done_.notify_one();
    }
  }

  Descriptor wake_;
  std::size_t in_flight_ = 0;  // the model thread's
  std::mutex mutex_;
  std::condition_variable work_, done_;
  CompletionQueue waiting_, finished_;
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace

Result<std::unique_ptr<Reader>> make_pread_reader(const ReaderSetup& setup) {
  Descriptor wake(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  if (!wake) return fail(ErrorCode::io, std::string("cannot make an eventfd: ") + std::strerror(errno));
  auto reader = std::make_unique<PreadReader>(std::move(wake));
  try {
    reader->start(std::clamp(setup.threads, 1U, 64U));
  } catch (const std::system_error& error) {
    return fail(ErrorCode::io, std::string("cannot start a reading thread: ") + error.what());
  }
  return std::unique_ptr<Reader>(std::move(reader));
}

}  // namespace k3::experts
