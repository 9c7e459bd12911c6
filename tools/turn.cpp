#include "tools/turn.hpp"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <system_error>

namespace k3::cli {
namespace {

// A signal handler can reach nothing but globals. Lock-free atomics are what it may touch.
std::atomic<bool> interrupted{false};
std::atomic<bool> thought_enough{false};
std::atomic<const Wakeup*> interrupt_wakes{nullptr};
static_assert(std::atomic<bool>::is_always_lock_free && std::atomic<const Wakeup*>::is_always_lock_free);

extern "C" void on_interrupt(int signal) {
  const int saved = errno;
  (signal == SIGQUIT ? thought_enough : interrupted).store(true);
  if (const Wakeup* wakeup = interrupt_wakes.load()) wakeup->notify();
  errno = saved;
}

// The command line reads events at once, so what may pile up is what arrives while it writes to a slow terminal.
constexpr std::size_t ticket_events = 1U << 20;

template <class... Handlers>
struct Overloaded : Handlers... {
  using Handlers::operator()...;
};

}  // namespace

Wakeup::Wakeup() : fd_(::eventfd(0, EFD_CLOEXEC)) {
  if (fd_ < 0) throw std::system_error(errno, std::generic_category(), "eventfd");
}

Wakeup::~Wakeup() { ::close(fd_); }

void Wakeup::notify() const {
  const std::uint64_t one = 1;
  // It can only fail when the counter is at its maximum, and then the sleeper wakes anyway.
  [[maybe_unused]] const auto written = ::write(fd_, &one, sizeof one);
}

void Wakeup::wait() const {
  std::uint64_t count = 0;
  // Interrupted by a signal: the caller looks at its flags and comes back.
  [[maybe_unused]] const auto got = ::read(fd_, &count, sizeof count);
}

bool Wakeup::wait_readable(int fd) const {
  pollfd both[] = {{fd, POLLIN, 0}, {fd_, POLLIN, 0}};
  if (::poll(both, 2, -1) < 0) return false;  // a signal, whose flag the caller looks at
  if (both[1].revents == 0) return true;
  wait();
  return false;
}

CatchInterrupt::CatchInterrupt(const Wakeup& wakeup) {
  interrupt_wakes.store(&wakeup);
  struct sigaction action {};
  action.sa_handler = on_interrupt;
  ::sigaction(SIGINT, &action, &before_);
  ::sigaction(SIGQUIT, &action, &before_quit_);
}

CatchInterrupt::~CatchInterrupt() {
  ::sigaction(SIGINT, &before_, nullptr);
  ::sigaction(SIGQUIT, &before_quit_, nullptr);
  interrupt_wakes.store(nullptr);
}

bool CatchInterrupt::seen() { return interrupted.load(); }
bool CatchInterrupt::seen_thought() { return thought_enough.load(); }
void CatchInterrupt::forget() {
  interrupted.store(false);
  thought_enough.store(false);
}

Result<Turn> run_turn(Model& model, Job job, generation::Answer& answer, const Wakeup& wakeup, const TurnWatcher& watcher) {
  auto ticket = std::make_shared<Ticket>(ticket_events);
  ticket->on_event([&wakeup] { wakeup.notify(); });
  if (auto submitted = model.submit(std::move(job), ticket); submitted.has_error()) return submitted.error();

  Turn turn;
  std::optional<Error> failure;
  bool ended = false, stopped = false;
  const auto show = [&](const std::vector<text::Delta>& deltas) {
    if (!watcher.delta) return;
    for (const text::Delta& delta : deltas) watcher.delta(delta);
  };
  const auto on_token = [&](const Token& token) {
    if (stopped) return;  // the model was faster than the cancellation
    turn.ids.push_back(token.id);
    // Kept only where a stop string ends the answer: else the model's own account replaces it.
    Timings& timings = turn.finished.timings;
    if (turn.ids.size() == 1) timings.prefill = token.used;
    timings.decode = token.used - timings.prefill;
    show(answer.push(token.id));
    if (answer.stopped()) {
      stopped = true;
      ticket->cancel();
    }
  };
  const auto handle = Overloaded{
      [&](const Token& token) { on_token(token); },
      [&](const Finished& finished) {
        turn.finished = finished;
        ended = true;
      },
      [&](const Failed& failed) {
        failure = failed.error;
        ended = true;
      },
      [](const auto&) {},
  };
  while (!ended) {
    while (auto event = ticket->pop()) {
      if (watcher.event) watcher.event(*event);
      std::visit(handle, *event);
    }
    if (ended) break;
    if (CatchInterrupt::seen() && !turn.cancelled) {
      turn.cancelled = true;
      ticket->cancel();
    }
    if (CatchInterrupt::seen_thought()) ticket->end_thinking();
    wakeup.wait();
  }
  // After a cancellation that we asked for, Failed{cancelled} is the expected end.
  if (failure && !((turn.cancelled || stopped) && failure->code == ErrorCode::cancelled)) return *failure;
  if (stopped) turn.finished.output_tokens = turn.ids.size();
  show(answer.finish(turn.finished.reason));
  return turn;
}

}  // namespace k3::cli
