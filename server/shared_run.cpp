#include "server/shared_run.hpp"

#include <algorithm>
#include <boost/asio/post.hpp>
#include <ctime>

#include "server/run_board.hpp"

namespace k3::server {
namespace {

// A model faster than this thread must not keep it from everything else.
constexpr int kEventsPerTurn = 1024;

bool is_token(const Event& event) { return std::holds_alternative<Token>(event); }

}  // namespace

SharedRun::SharedRun(App& app, RunIdentity identity, const Job& job)
    : app_(app),
      identity_(std::move(identity)),
      id_digits_(app.random_hex(24)),
      created_(static_cast<std::int64_t>(std::time(nullptr))),
      ticket_(std::make_shared<Ticket>(app.options.limits.ticket_events)),
      submitted_(app.now()),
      max_tokens_(job.max_tokens),
      prefill_{.done = 0, .total = job.prompt.size(), .cached = 0} {}

SharedRun::~SharedRun() { ticket_->cancel(); }

// The model may speak longer than this server lives, so it owns the io_context and only borrows the run.
std::function<void()> SharedRun::waker() {
  return [io = app_.io, weak = weak_from_this()] {
    const auto run = weak.lock();
    if (!run || run->posted_.exchange(true)) return;
    asio::post(*io, [weak] {
      const auto here = weak.lock();
      if (!here) return;
      here->posted_ = false;
      here->take_events();
    });
  };
}

Result<void> SharedRun::submit(Job job) {
  ticket_->on_event(waker());
  return app_.model->submit(std::move(job), ticket_);
}

void SharedRun::attach(Listener& listener) {
  grace_.reset();
  listeners_.push_back(&listener);
}

void SharedRun::detach(Listener& listener, Leaving leaving) {
  if (std::erase(listeners_, &listener) == 0 || !listeners_.empty()) return trim();
  const bool may_return = leaving == Leaving::gone && identity_.sdk && joinable(identity_) && !app_.draining;
  if (may_return) {
    grace_ = app_.now() + app_.options.limits.rejoin_grace;
    app_.runs->look_at_clock();
    return;
  }
  ticket_->cancel();
  app_.runs->forget(*this);
}

std::optional<Event> SharedRun::next(Listener& listener) {
  if (listener.at == base_ + log_.size()) take_events();
  if (listener.lagging) return Failed{fail(ErrorCode::cancelled, "the client fell too far behind")};
  if (listener.at == base_ + log_.size()) {
    listener.caught_up = true;
    return std::nullopt;
  }
  Event event = log_[listener.at - base_];
  ++listener.at;
  trim();
  return event;
}

void SharedRun::stop() {
  stopped_ = true;
  ticket_->cancel();
}

bool SharedRun::joinable(const RunIdentity& identity) const {
  return !identity_.digest.empty() && identity_.digest == identity.digest && base_ == 0 && (!failed_ || stopped_);
}

void SharedRun::take_events() {
  int taken = 0;
  bool more = false;
  for (; taken < kEventsPerTurn && !over_; ++taken) {
    auto event = ticket_->pop();
    more = event.has_value();
    if (!more) break;
    take(std::move(*event));
  }
  if (taken == 0) return;
  mark_laggards();
  trim();
  if (more && !over_) waker()();
  for (Listener* listener : listeners_) listener->wake();
}

void SharedRun::take(Event event) {
  measure(event);
  failed_ = std::holds_alternative<Failed>(event);
  over_ = failed_ || std::holds_alternative<Finished>(event);
  forget_last_report(event);
  log_.push_back(std::move(event));
}

// Of reports on the queue and the prompt only the latest says anything. One that everybody has taken makes room for the next: a
// prompt may take hours.
void SharedRun::forget_last_report(const Event& next) {
  if (is_token(next) || log_.empty() || log_.back().index() != next.index()) return;
  const std::size_t end = base_ + log_.size();
  if (std::any_of(listeners_.begin(), listeners_.end(), [end](const Listener* l) { return l->at < end; })) return;
  log_.pop_back();
  for (Listener* listener : listeners_) --listener->at;
}

// What everybody has taken is kept for those who may yet join, as long as it is little.
void SharedRun::trim() {
  if (!identity_.digest.empty() && base_ == 0 && log_.size() <= app_.options.limits.replay_events) return;
  std::size_t first = base_ + log_.size();
  for (const Listener* listener : listeners_) first = std::min(first, listener->at);
  for (; base_ < first; ++base_) log_.pop_front();
}

void SharedRun::mark_laggards() {
  const std::size_t end = base_ + log_.size();
  const Limits& limits = app_.options.limits;
  // Who has joined begins as far behind as a log may be long.
  const auto lags = [&](const Listener* listener) {
    return end - listener->at > (listener->caught_up ? limits.ticket_events : limits.replay_events);
  };
  for (Listener* listener : std::vector<Listener*>(listeners_)) {
    if (!lags(listener)) continue;
    listener->lagging = true;
    listener->wake();
    detach(*listener, Leaving::stopped);
  }
}

void SharedRun::measure(const Event& event) {
  const auto now = app_.now();
  if (const auto* prefill = std::get_if<Prefill>(&event)) {
    if (last_step_ && prefill->done > prefill_.done) {
      app_.runs->prompt_pace().add(prefill->done - prefill_.done, app_.model->info().step_rows, now - *last_step_);
    }
    prefill_ = *prefill;
    last_step_ = now;
  } else if (is_token(event)) {
    // The first one comes with the end of the prompt.
    if (tokens_++ > 0 && last_step_) app_.runs->token_pace().add(1, now - *last_step_);
    last_step_ = now;
  } else if (std::holds_alternative<Finished>(event)) {
    app_.runs->note_length(tokens_);
  }
}

}  // namespace k3::server
