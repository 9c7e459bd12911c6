// A drive that does as it is told, from whatever thread: keeps reads waiting, or fails those of one place.
#pragma once

#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <compare>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "model/experts/descriptor.hpp"
#include "model/experts/stream.hpp"

namespace k3::faults {

// Where a read begins: with one expert's tensors side by side, one place an expert.
struct Place {
  std::uint32_t file = 0;
  std::uint64_t offset = 0;
  friend auto operator<=>(const Place&, const Place&) = default;
};

class Drive {
 public:
  // --- the test's side, any thread ---
  // From now on reads of `place` fail, once it has been read `good` times more.
  void fail(Place place, int error, std::size_t good) {
    const std::lock_guard lock(mutex_);
    fault_ = {place, error, good};
  }
  void repair() {
    const std::lock_guard lock(mutex_);
    fault_.reset();
  }
  void hold() {
    const std::lock_guard lock(mutex_);
    holding_ = true;
  }
  void release() {
    const std::lock_guard lock(mutex_);
    holding_ = false;
    while (experts::Completion* read = held_.pop()) carry_out(*read);
    changed_.notify_all();
  }
  void wait_until_held() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return !held_.empty(); });
  }
  // How often each place has been read since this was last asked.
  std::map<Place, std::size_t> take_reads() {
    const std::lock_guard lock(mutex_);
    return std::exchange(reads_, {});
  }

  // --- the reader's side, the model thread ---
  void submit(experts::Completion& read) {
    const std::lock_guard lock(mutex_);
    ++in_flight_;
    if (!holding_) return carry_out(read);
    held_.push(read);
    changed_.notify_all();
  }
  std::size_t reap(FunctionRef<void(experts::Completion&)> done) {
    experts::CompletionQueue finished;
    {
      const std::lock_guard lock(mutex_);
      std::swap(finished, finished_);
    }
    std::size_t count = 0;
    for (; experts::Completion* read = finished.pop(); ++count) {
      {
        const std::lock_guard lock(mutex_);
        --in_flight_;
      }
      done(*read);
    }
    return count;
  }
  void wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return !finished_.empty(); });
  }
  std::size_t in_flight() const {
    const std::lock_guard lock(mutex_);
    return in_flight_;
  }
  int wake_fd() const { return wake_.get(); }

 private:
  struct Fault {
    Place place;
    int error = 0;
    std::size_t good = 0;
  };

  bool fails(Place place) {
    if (!fault_ || fault_->place != place) return false;
    if (fault_->good == 0) return true;
    --fault_->good;
    return false;
  }

  void carry_out(experts::Completion& read) {
    const Place place{read.file, read.offset};
    ++reads_[place];
    if (fails(place)) {
      read.result = -fault_->error;
    } else {
      const auto got = ::pread(read.fd, read.into, read.length, static_cast<off_t>(read.offset));
      read.result = got < 0 ? -errno : static_cast<std::int32_t>(got);
    }
    finished_.push(read);
    const std::uint64_t one = 1;
    [[maybe_unused]] const auto written = ::write(wake_.get(), &one, sizeof one);
  }

  const experts::Descriptor wake_{::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)};
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool holding_ = false;
  std::optional<Fault> fault_;
  experts::CompletionQueue held_, finished_;
  std::size_t in_flight_ = 0;
  std::map<Place, std::size_t> reads_;
};

class DriveReader final : public experts::Reader {
 public:
  explicit DriveReader(std::shared_ptr<Drive> drive) : drive_(std::move(drive)) {}
  void submit(experts::Completion& read) override { drive_->submit(read); }
  void flush() override {}
  std::size_t reap(FunctionRef<void(experts::Completion&)> done) override { return drive_->reap(done); }
  void wait() override { drive_->wait(); }
  int wake_fd() const override { return drive_->wake_fd(); }
  void clear_wake() override {
    std::uint64_t count = 0;
    [[maybe_unused]] const auto got = ::read(drive_->wake_fd(), &count, sizeof count);
  }
  std::size_t in_flight() const override { return drive_->in_flight(); }
  std::string_view name() const override { return "told"; }

 private:
  const std::shared_ptr<Drive> drive_;
};

}  // namespace k3::faults
