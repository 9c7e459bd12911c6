#include "model/ticket.hpp"

namespace k3 {

std::optional<Event> Ticket::pop() {
  const std::lock_guard lock(mutex_);
  if (events_.empty()) return std::nullopt;
  Event event = std::move(events_.front());
  events_.pop_front();
  return event;
}

void Ticket::push(Event event) {
  {
    const std::lock_guard lock(mutex_);
    const bool last = std::holds_alternative<Finished>(event) || std::holds_alternative<Failed>(event);
    // The final event always fits: the reader must learn how it ended.
    if (events_.size() >= capacity_ && !last) {
      stop_.request_stop();
      return;
    }
    events_.push_back(std::move(event));
  }
  if (wake_) wake_();
}

}  // namespace k3
