// One answer of the model, waited for on the calling thread.
#pragma once

#include <csignal>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "model/function_ref.hpp"
#include "model/generation/answer.hpp"
#include "model/ticket.hpp"

namespace k3::cli {

// What the waiting thread sleeps on: the model's events and Ctrl-C both end the sleep.
class Wakeup {
 public:
  Wakeup();
  ~Wakeup();
  Wakeup(const Wakeup&) = delete;
  Wakeup& operator=(const Wakeup&) = delete;

  void notify() const;  // any thread, and signal handlers
  void wait() const;    // until notified; spurious returns are possible
  // Until `fd` can be read (true) or this is notified (false, which may be spurious). A signal that comes just before is not lost,
  // as it would be to a read that only signals interrupt.
  bool wait_readable(int fd) const;

 private:
  int fd_ = -1;
};

// While this lives, Ctrl-C and Ctrl-\ (SIGINT, SIGQUIT) set flags (and wake) instead of ending the program.
class CatchInterrupt {
 public:
  explicit CatchInterrupt(const Wakeup& wakeup);
  ~CatchInterrupt();
  CatchInterrupt(const CatchInterrupt&) = delete;
  CatchInterrupt& operator=(const CatchInterrupt&) = delete;

  static bool seen();          // Ctrl-C: enough of this answer
  static bool seen_thought();  // Ctrl-\: enough of this thinking
  static void forget();        // both

 private:
  struct sigaction before_ {};
  struct sigaction before_quit_ {};
};

struct Turn {
  std::vector<std::int32_t> ids;
  Finished finished;       // counts and timings; counts of output are ours if a stop string ended the answer
  bool cancelled = false;  // by Ctrl-C
};

// What the caller wants to see on the way.
struct TurnWatcher {
  std::function<void(const Event&)> event;  // Queued and Prefill
  std::function<void(const text::Delta&)> delta;
};

// Submits the job and feeds its ids to `answer` until it is finished. A job cancelled by Ctrl-C is a Turn too; any other failure an
// error. Ctrl-\ makes the model end its thinking and answer. `wakeup` outlives the model.
Result<Turn> run_turn(Model& model, Job job, generation::Answer& answer, const Wakeup& wakeup, const TurnWatcher& watcher);

}  // namespace k3::cli
