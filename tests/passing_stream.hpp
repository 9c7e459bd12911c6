// A stream of experts in front of another: passes everything on. Tests override what they want to go wrong.
#pragma once

#include <cstdlib>
#include <memory>

#include "model/experts/expert_stream.hpp"

namespace k3::test {

class PassingStream : public experts::ExpertStream {
 public:
  explicit PassingStream(std::unique_ptr<ExpertStream> inner) : inner_(std::move(inner)) {}

  void request(std::span<const experts::ExpertKey> keys, std::span<const float> worth) override { inner_->request(keys, worth); }
  void guess(std::span<const experts::ExpertKey> keys, std::size_t at_once) override { inner_->guess(keys, at_once); }
  boost::asio::awaitable<Result<experts::Lease>> acquire(experts::ExpertKey key, std::stop_token stop) override {
    Result<experts::Lease> lease = co_await inner_->acquire(key, stop);
    co_return lease;
  }
  bool ready(experts::ExpertKey key) const override { return inner_->ready(key); }
  void reap() override { inner_->reap(); }
  void await_memory() override { inner_->await_memory(); }
  boost::asio::awaitable<void> drain() override { co_await inner_->drain(); }
  experts::StreamCounters counters() const override { return inner_->counters(); }
  std::size_t slots() const override { return inner_->slots(); }
  std::size_t in_flight() const override { return inner_->in_flight(); }
  std::string_view backend() const override { return inner_->backend(); }

 protected:
  ExpertStream& inner() { return *inner_; }
  void release(std::size_t) override { std::abort(); }  // leases are the inner stream's

 private:
  std::unique_ptr<ExpertStream> inner_;
};

}  // namespace k3::test
