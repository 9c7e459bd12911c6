// A reader whose disk does as it is told: late, out of order, short, interrupted, broken.
#pragma once

#include <sys/eventfd.h>

#include <algorithm>
#include <cerrno>
#include <functional>
#include <vector>

#include "model/experts/descriptor.hpp"
#include "model/experts/reader.hpp"
#include "tests/catch.hpp"

namespace k3::experts::test {

// What happens to one read.
struct Fate {
  int error = 0;                              // this errno instead of bytes
  std::uint32_t at_most = ~std::uint32_t{0};  // bytes
};

class ScriptedReader final : public Reader {
 public:
  ScriptedReader() : wake_(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {}
  ~ScriptedReader() override { CHECK(in_flight() == 0); }

  // Asked once a read, when it is carried out.
  std::function<Fate(const Completion&)> fate;
  bool held = false;  // reads wait for finish()
  std::size_t submitted = 0, most_in_flight = 0;
  std::size_t* waits = nullptr;  // counts wait(), and outlives us

  std::size_t waiting() const { return waiting_.size(); }
  const Completion& at(std::size_t i) const { return *waiting_[i]; }
  void finish(std::size_t i) {
    Completion* completion = waiting_[i];
    waiting_.erase(waiting_.begin() + static_cast<std::ptrdiff_t>(i));
    carry_out(*completion);
  }
  void finish_all() {
    while (!waiting_.empty()) finish(0);
  }

  void submit(Completion& completion) override {
    ++submitted;
    waiting_.push_back(&completion);
    most_in_flight = std::max(most_in_flight, in_flight());
  }
  void flush() override {
    if (!held) finish_all();
  }
  std::size_t reap(FunctionRef<void(Completion&)> done) override {
    std::vector<Completion*> finished;
    std::swap(finished, finished_);
    for (Completion* completion : finished) done(*completion);
    return finished.size();
  }
  void wait() override {
    if (waits != nullptr) ++*waits;
    finish_all();
  }
  int wake_fd() const override { return wake_.get(); }
  void clear_wake() override {
    std::uint64_t count = 0;
    [[maybe_unused]] const auto n = ::read(wake_.get(), &count, sizeof count);
  }
  std::size_t in_flight() const override { return waiting_.size() + finished_.size(); }
  std::string_view name() const override { return "scripted"; }

 private:
  void carry_out(Completion& completion) {
    const Fate f = fate ? fate(completion) : Fate{};
    if (f.error != 0) {
      completion.result = -f.error;
    } else {
      const auto length = std::min(completion.length, f.at_most);
      completion.result =
          static_cast<std::int32_t>(::pread(completion.fd, completion.into, length, static_cast<off_t>(completion.offset)));
    }
    finished_.push_back(&completion);
    const std::uint64_t one = 1;
    [[maybe_unused]] const auto n = ::write(wake_.get(), &one, sizeof one);
  }

  Descriptor wake_;
  std::vector<Completion*> waiting_, finished_;
};

}  // namespace k3::experts::test
