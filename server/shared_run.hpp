// One job of the model, and all who wait for its answer: the client that asked and, where its SDK lost patience and sent the same
// request again, that client once more. The job is withdrawn when the last of them has left.
#pragma once

#include <deque>
#include <optional>

#include "server/app.hpp"

namespace k3::server {

// Who asks for what. Two requests with the same `digest` are the same request of the same client.
struct RunIdentity {
  std::string digest;   // of key, path and body; empty: nobody can join the run
  bool resend = false;  // this request may be one that was sent before
  bool sdk = false;     // its client is one that sends again by itself
  std::string key{};    // the name of the API key; empty: there are none
};

class SharedRun : public std::enable_shared_from_this<SharedRun> {
 public:
  // One waiting client. Lives in its session; attached from attach() to detach().
  struct Listener {
    std::function<void()> wake;
    std::size_t at = 0;      // the event it takes next, counted from the first one
    bool caught_up = false;  // has once taken all there was: from then on it must keep up
    bool lagging = false;    // has not
  };
  enum class Leaving { served, gone, stopped };

  // `app` outlives the run.
  SharedRun(App& app, RunIdentity identity, const Job& job);
  ~SharedRun();
  SharedRun(const SharedRun&) = delete;
  SharedRun& operator=(const SharedRun&) = delete;

  Result<void> submit(Job job);
  void attach(Listener& listener);
  // The last one to leave ends the run; where it is `gone` and may send again, only after Limits::rejoin_grace.
  void detach(Listener& listener, Leaving leaving);
  std::optional<Event> next(Listener& listener);
  // What has been said is all that is wanted; whoever is still behind gets as far as that.
  void stop();
  void end_thinking() { ticket_->end_thinking(); }

  bool joinable(const RunIdentity& identity) const;
  bool nobody_left(Clock::time_point now) const { return listeners_.empty() && grace_ && *grace_ <= now; }
  std::optional<Clock::time_point> grace() const { return grace_; }

  // Of all answers to it, as if they were one.
  const std::string& id_digits() const { return id_digits_; }
  std::int64_t created() const { return created_; }

  // --- how far it is, for estimates ---
  Clock::time_point submitted() const { return submitted_; }
  const Prefill& prefill() const { return prefill_; }
  Clock::duration since_last_step() const { return last_step_ ? app_.now() - *last_step_ : Clock::duration(0); }
  std::size_t tokens() const { return tokens_; }
  std::size_t max_tokens() const { return max_tokens_; }
  bool over() const { return over_; }
  const std::string& key() const { return identity_.key; }

 private:
  void take_events();
  void take(Event event);
  void measure(const Event& event);
  void forget_last_report(const Event& next);
  void trim();
  void mark_laggards();
  std::function<void()> waker();

  App& app_;
  const RunIdentity identity_;
  const std::string id_digits_;
  const std::int64_t created_;
  std::shared_ptr<Ticket> ticket_;
  std::deque<Event> log_;
  std::size_t base_ = 0;  // number of the event at the log's front
  std::vector<Listener*> listeners_;
  std::optional<Clock::time_point> grace_;
  std::atomic<bool> posted_ = false;  // a wake-up is on its way
  bool over_ = false, failed_ = false, stopped_ = false;

  const Clock::time_point submitted_;
  const std::size_t max_tokens_;
  Prefill prefill_;
  std::size_t tokens_ = 0;
  std::optional<Clock::time_point> last_step_;
};

}  // namespace k3::server
