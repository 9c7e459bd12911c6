#include "model/actor_batch.hpp"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <new>

namespace k3 {

using boost::asio::awaitable;

namespace {

Error from_exception(const std::exception& e) {
  spdlog::error("a job failed with an exception: {}", e.what());
  if (dynamic_cast<const std::bad_alloc*>(&e) != nullptr)
    return fail(ErrorCode::out_of_memory, "there is not enough memory for this request");
  return fail(ErrorCode::internal, std::string("unexpected exception: ") + e.what());
}

// Stops a step when more than half of its rows belong to jobs that are cancelled. The callbacks run on the threads that cancel.
class StepStop {
 public:
  explicit StepStop(std::size_t rows) : rows_(rows) {}
  void watch(const std::stop_token& job, std::size_t rows) { watches_.emplace_back(job, Cancelled{this, rows}); }
  std::stop_token token() const { return source_.get_token(); }

 private:
  struct Cancelled {
    StepStop* step;
    std::size_t rows;
    void operator()() const {
      if (2 * (step->unwanted_ += rows) > step->rows_) step->source_.request_stop();
    }
  };
  const std::size_t rows_;
  std::atomic<std::size_t> unwanted_{0};
  std::stop_source source_;
  std::list<std::stop_callback<Cancelled>> watches_;  // last, so that they go first
};

}  // namespace

Batch::Batch(const JobSurroundings& around, Mailbox& mailbox, std::size_t most) : around_(around), mailbox_(mailbox), most_(most) {
  // A step may take minutes, and who watches the drive wants to see it at work.
  hooks_.after_layer = [this](std::size_t, std::span<const float>) { around_.work.post(); };
}

void Batch::add(MailboxEntry entry) {
  const std::shared_ptr<Ticket> ticket = entry.ticket;
  try {
    runs_.emplace_back(around_, std::move(entry)).begin();
  } catch (const std::exception& e) {
    const Error error = from_exception(e);
    if (!runs_.empty() && runs_.back().ticket() == ticket) {
      runs_.back().abandon(error);
    } else {
      ticket->push(Failed{error});
      mailbox_.done(*ticket);
    }
  }
  remove_ended();
}

awaitable<void> Batch::step() {
  choose_parts();
  const bool prompts = std::any_of(parts_.begin(), parts_.end(), [](const Part& part) { return part.run->prefilling(); });
  const bool shared = parts_.size() > 1;
  const auto begun = shared ? around_.clock() : std::chrono::steady_clock::time_point();
  const Result<void> done = co_await run_parts();
  if (done.has_error() && shared && done.error().code != ErrorCode::cancelled) {
    const std::vector<Part> all = parts_;
    for (const Part& part : all) {
      parts_.clear();
      rows_.clear();
      add_part(*part.run, part.count);
      const Result<void> alone = co_await run_parts();
      if (alone.has_error()) part.run->abandon(alone.error());
    }
  } else if (done.has_error() && !shared) {
    parts_.front().run->abandon(done.error());
  }
  if (shared && prompts) {
    const auto now = around_.clock();
    prompts_again_ = now + (now - begun);
  }
  for (JobRun& run : runs_) {
    if (run.ticket()->stop_token().stop_requested()) run.abandon(fail(ErrorCode::cancelled, "the request was cancelled"));
  }
  remove_ended();
  // So that with more jobs than rows in a step everybody has a turn.
  if (runs_.size() > 1) runs_.splice(runs_.end(), runs_, runs_.begin());
}

void Batch::add_part(JobRun& run, std::size_t most) {
  const std::size_t first = rows_.size();
  parts_.push_back({&run, first, run.next_rows(most, rows_)});
}

void Batch::choose_parts() {
  parts_.clear();
  rows_.clear();
  const std::size_t chunk = around_.model.chunk;
  std::vector<JobRun*> reading;
  for (JobRun& run : runs_) {
    if (run.prefilling()) reading.push_back(&run);
  }
  const bool both = !reading.empty() && reading.size() < runs_.size();
  if (both && around_.clock() < prompts_again_) reading.clear();
  const std::size_t tokens = both && !reading.empty() ? chunk - 1 : chunk;
  for (JobRun& run : runs_) {
    if (!run.prefilling() && rows_.size() < tokens) add_part(run, 1);
  }
  for (std::size_t i = 0; i < reading.size() && rows_.size() < chunk; ++i) {
    const std::size_t left = reading.size() - i;
    add_part(*reading[i], std::max<std::size_t>(1, (chunk - rows_.size()) / left));
  }
}

// Afterwards each part's job has what is its own, unless there is an error: then nothing has happened.
awaitable<Result<void>> Batch::run_parts() {
  StepStop together(rows_.size());
  std::stop_token stop = parts_.front().run->ticket()->stop_token();
  if (parts_.size() > 1) {
    for (const Part& part : parts_) together.watch(part.run->ticket()->stop_token(), part.count);
    stop = together.token();
  }
  const std::span<const Row> rows = rows_;
  try {
    const Result<StepResult> step = co_await around_.forward.step(rows, stop, hooks_);
    if (step.has_error()) co_return step.error();
    hand_out(*step);
  } catch (const std::exception& e) {
    co_return from_exception(e);
  }
  co_return Result<void>();
}

void Batch::hand_out(const StepResult& result) {
  const std::size_t vocabulary = around_.model.info.vocabulary;
  std::size_t logits = 0;
  for (const Part& part : parts_) {
    const bool wanted = rows_[part.first + part.count - 1].wants_logits;
    const std::span<const float> own = wanted ? result.logits.subspan(logits++ * vocabulary, vocabulary) : std::span<const float>();
    const auto errors = result.row_errors.subspan(part.first, part.count);
    const auto bad =
        std::find_if(errors.begin(), errors.end(), [](const std::optional<Error>& error) { return error.has_value(); });
    try {
      if (bad != errors.end()) {
        part.run->abandon(**bad);
      } else {
        part.run->stepped(part.count, own);
      }
    } catch (const std::exception& e) {
      part.run->abandon(from_exception(e));
    }
  }
}

void Batch::remove_ended() {
  for (auto run = runs_.begin(); run != runs_.end();) {
    if (!run->ended()) {
      ++run;
      continue;
    }
    // First its conversation is given back: whoever sees that it has ended may go on with that.
    const std::shared_ptr<Ticket> ticket = run->ticket();
    run = runs_.erase(run);
    mailbox_.done(*ticket);
  }
}

}  // namespace k3
