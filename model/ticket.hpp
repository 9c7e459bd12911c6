// The messages between whoever asks and the model actor: a Job goes in, Events come out, a Ticket holds the two ends together.
#pragma once

#include <atomic>
#include <chrono>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <stop_token>
#include <utility>
#include <variant>
#include <vector>

#include "model/error.hpp"
#include "model/generation/answer_form.hpp"
#include "model/generation/sampling.hpp"
#include "model/work_done.hpp"

namespace k3 {

struct Job {
  std::vector<std::int32_t> prompt;  // at least one id
  generation::Sampling sampling;
  std::size_t max_tokens = 0;          // of output; 0: up to the context limit
  std::vector<std::int32_t> stop_ids;  // generation ends after one of these; it is reported as the last Token
  generation::AnswerForm form{};       // what the answer must look like
  std::optional<unsigned> logprobs{};  // with each Token its probability, and so many of the most probable ones
};

// Prefill ends with the first token.
struct Timings {
  double queued_s = 0, prefill_s = 0, decode_s = 0;
  DriveUse prefill{}, decode{};
};

// Jobs ahead of this one, sent on admission and whenever it changes; 0 = next.
struct Queued {
  std::size_t position = 0;
};
// Prompt tokens whose state is committed, of `total`; `cached` of them needed no computing.
struct Prefill {
  std::size_t done = 0, total = 0, cached = 0;
};
// Natural logarithms of probabilities as the model gave them, before temperature, penalties and everything else of the sampler.
struct TokenLogprobs {
  float own = 0;
  std::vector<std::pair<std::int32_t, float>> top;  // the most probable first; equal ones by id
};
struct Token {
  std::int32_t id = 0;
  DriveUse used{};                                  // by the job so far: whoever ends it early has its numbers
  std::shared_ptr<const TokenLogprobs> logprobs{};  // where the job asked for them
};
enum class FinishReason { stop, length };
struct Finished {
  FinishReason reason = FinishReason::stop;
  std::size_t prompt_tokens = 0, cached_tokens = 0, output_tokens = 0;
  Timings timings;
};
struct Failed {
  Error error;
};  // also for a cancelled job, with ErrorCode::cancelled
// Finished or Failed is the last event of a ticket, always exactly one of them.
using Event = std::variant<Queued, Prefill, Token, Finished, Failed>;

// The receiving end of a job. Two threads meet here and nowhere else: the model thread pushes, the asker's thread pops, so this is
// the one place with a mutex. A reader that stalls must not stall the model nor grow memory: past `capacity` events the job is
// cancelled.
class Ticket {
 public:
  explicit Ticket(std::size_t capacity) : capacity_(capacity) {}

  // --- asker's side ---
  std::optional<Event> pop();
  // Withdraws the job: skipped if still queued, stopped at the next cancellation point if running. Any thread, any number of times.
  void cancel() { stop_.request_stop(); }
  // What the model thinks is thought enough: it is made to answer. Any thread; without effect where it does not think.
  void end_thinking() { thinking_unwanted_ = true; }
  // `wake` is called after each push, without the lock, from the model thread or from within submit(); set it before submitting. It
  // must neither block nor call back into the model, and must own what it touches: the call for the last event may still be under
  // way after pop() has returned that event.
  void on_event(std::function<void()> wake) { wake_ = std::move(wake); }

  // --- model's side ---
  void push(Event event);
  std::stop_token stop_token() const { return stop_.get_token(); }
  bool thinking_unwanted() const { return thinking_unwanted_; }

 private:
  const std::size_t capacity_;
  std::stop_source stop_;
  std::atomic<bool> thinking_unwanted_{false};
  std::function<void()> wake_;
  std::mutex mutex_;
  std::deque<Event> events_;
};

// What the outside may know about the model; fixed after loading.
struct ModelInfo {
  std::string id;                 // as clients name it
  std::size_t context_limit = 0;  // prompt + output, tokens
  std::size_t vocabulary = 0;
  std::string fingerprint;    // of weights, precision and build
  std::size_t parallel = 1;   // jobs that run together; others wait
  std::size_t step_rows = 1;  // of all of them, in one step of the model; a longer prompt takes several
};

struct ModelStatus {
  std::size_t running = 0, queued = 0;
  WorkDone work{};  // up to the last layer that was computed
};

// The actor as others see it; the server's tests put a scripted one here.
class Model {
 public:
  virtual ~Model() = default;
  // Thread-safe. Errors: overloaded (the queue is full), invalid_argument (context limit, with both numbers; ids outside the
  // vocabulary).
  virtual Result<void> submit(Job job, std::shared_ptr<Ticket> ticket) = 0;
  virtual ModelInfo info() const = 0;
  virtual ModelStatus status() const = 0;  // any thread, at any time; never waits for the model
  // Of this prompt, the tokens that need no computing if it came now; nullopt where that is not known. As status().
  virtual std::optional<std::size_t> cached_tokens(std::span<const std::int32_t> /*prompt*/) const { return std::nullopt; }
};

}  // namespace k3
