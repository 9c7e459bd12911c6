// The edge of the model thread: a bounded first-in first-out queue of jobs. Like Ticket it is a place where threads meet, so it has
// a mutex.
#pragma once

#include <chrono>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "model/ticket.hpp"

namespace k3 {

struct MailboxEntry {
  Job job;
  std::shared_ptr<Ticket> ticket;
  std::chrono::steady_clock::time_point submitted;
  std::size_t announced = 0;  // the position its asker was last told
};

// Each entry's Queued events come in order and before any event of its run: they are pushed under the mutex. So a ticket's wake
// function must not call back into the model (it is called from submit() as well as from the model thread).
class Mailbox {
 public:
  explicit Mailbox(std::size_t capacity) : capacity_(capacity) {}

  // Any thread. Withdrawn jobs make room first. Errors: overloaded when full or closed.
  Result<void> push(MailboxEntry entry);
  // Model thread. The oldest job that is still wanted becomes a running one; withdrawn ones before it end as cancelled, unrun.
  std::optional<MailboxEntry> pop();
  // Model thread: this running job has ended.
  void done(const Ticket& ticket);
  // Model thread: what status() tells of the work from now on.
  void report(const WorkDone& work);
  // Model thread: the ids of the conversations that a new job could go on with.
  void keep(std::vector<std::vector<std::int32_t>> conversations);
  // Any thread, once: cancels the running jobs, fails the waiting ones, takes no more.
  void close();

  bool closed() const;
  ModelStatus status() const;
  // Of `prompt`, the tokens that the longest of those conversations holds already.
  std::size_t cached_tokens(std::span<const std::int32_t> prompt) const;

 private:
  using Entries = std::vector<MailboxEntry>;
  void take_withdrawn(Entries& out);
  void announce();

  const std::size_t capacity_;
  mutable std::mutex mutex_;
  std::deque<MailboxEntry> entries_;
  std::vector<std::shared_ptr<Ticket>> running_;
  bool closed_ = false;
  WorkDone work_;
  std::vector<std::vector<std::int32_t>> kept_;
};

}  // namespace k3
