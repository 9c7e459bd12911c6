#include "model/actor_mailbox.hpp"

#include <algorithm>
#include <string>

namespace k3 {

namespace {

void end_cancelled(std::vector<MailboxEntry>& entries, const char* why) {
  for (MailboxEntry& entry : entries) entry.ticket->push(Failed{fail(ErrorCode::cancelled, why)});
}

constexpr const char* withdrawn = "the request was cancelled while it waited";

}  // namespace

Result<void> Mailbox::push(MailboxEntry entry) {
  Entries dead;
  Result<void> outcome;
  {
    const std::lock_guard lock(mutex_);
    take_withdrawn(dead);
    if (closed_) {
      outcome = fail(ErrorCode::overloaded, "the model is shutting down");
    } else if (entries_.size() >= capacity_) {
      outcome = fail(ErrorCode::overloaded, "the queue is full: " + std::to_string(capacity_) + " requests are waiting");
    } else {
      entry.announced = entries_.size();
      entry.ticket->push(Queued{entry.announced});
      entries_.push_back(std::move(entry));
    }
    announce();
  }
  end_cancelled(dead, withdrawn);
  return outcome;
}

std::optional<MailboxEntry> Mailbox::pop() {
  Entries dead;
  std::optional<MailboxEntry> next;
  {
    const std::lock_guard lock(mutex_);
    take_withdrawn(dead);
    if (!entries_.empty()) {
      next = std::move(entries_.front());
      entries_.pop_front();
      running_.push_back(next->ticket);
    }
    announce();
  }
  end_cancelled(dead, withdrawn);
  return next;
}

void Mailbox::done(const Ticket& ticket) {
  const std::lock_guard lock(mutex_);
  std::erase_if(running_, [&ticket](const std::shared_ptr<Ticket>& running) { return running.get() == &ticket; });
}

void Mailbox::report(const WorkDone& work) {
  const std::lock_guard lock(mutex_);
  work_ = work;
}

void Mailbox::close() {
  Entries waiting;
  {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    for (const std::shared_ptr<Ticket>& ticket : running_) ticket->cancel();
    for (MailboxEntry& entry : entries_) waiting.push_back(std::move(entry));
    entries_.clear();
  }
  end_cancelled(waiting, "the model is shutting down");
}

bool Mailbox::closed() const {
  const std::lock_guard lock(mutex_);
  return closed_;
}

ModelStatus Mailbox::status() const {
  const std::lock_guard lock(mutex_);
  return {running_.size(), entries_.size(), work_};
}

void Mailbox::take_withdrawn(Entries& out) {
  std::deque<MailboxEntry> kept;
  for (MailboxEntry& entry : entries_) {
    if (entry.ticket->stop_token().stop_requested()) {
      out.push_back(std::move(entry));
    } else {
      kept.push_back(std::move(entry));
    }
  }
  entries_ = std::move(kept);
}

void Mailbox::announce() {
  for (std::size_t position = 0; position < entries_.size(); ++position) {
    if (entries_[position].announced == position) continue;
    entries_[position].announced = position;
    entries_[position].ticket->push(Queued{position});
  }
}

void Mailbox::keep(std::vector<std::vector<std::int32_t>> conversations) {
  const std::lock_guard lock(mutex_);
  kept_.swap(conversations);
}

std::size_t Mailbox::cached_tokens(std::span<const std::int32_t> prompt) const {
  const std::lock_guard lock(mutex_);
  std::size_t most = 0;
  for (const auto& ids : kept_) {
    // As LiveSequences::take() chooses: a prompt must be longer than what is kept of it.
    if (ids.size() >= prompt.size() || ids.size() <= most) continue;
    if (std::equal(ids.begin(), ids.end(), prompt.begin())) most = ids.size();
  }
  return most;
}

}  // namespace k3
