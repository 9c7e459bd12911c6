// Cancels at every kind of point, drive errors and exceptions: the job ends, the actor and what it has computed live on.
#include <atomic>
#include <new>
#include <set>
#include <thread>

#include "tests/actor/support.hpp"
#include "tests/passing_stream.hpp"

using namespace k3;
using namespace k3::actor_test;

namespace {

// Counts the points of the running job and cancels its ticket at the n-th.
struct CancelAt {
  std::atomic<std::size_t> passed{0}, at{0};
  std::atomic<Ticket*> ticket{nullptr};

  void operator()() {
    if (++passed == at) ticket.load()->cancel();
  }
};

// Fails while it is told to.
class FaultyStream final : public test::PassingStream {
 public:
  enum class Fault { none, error, exception };

  FaultyStream(std::unique_ptr<ExpertStream> inner, const std::atomic<Fault>& fault, const std::atomic<int>& after)
      : PassingStream(std::move(inner)), fault_(fault), after_(after) {}

  boost::asio::awaitable<Result<experts::Lease>> acquire(experts::ExpertKey key, std::stop_token stop) override {
    if (fault_ != Fault::none && ++acquired_ > after_) {
      acquired_ = 0;
      if (fault_ == Fault::exception) throw std::bad_alloc();
      co_return fail(ErrorCode::io, "the drive is gone");
    }
    Result<experts::Lease> lease = co_await inner().acquire(key, stop);
    co_return lease;
  }

 private:
  const std::atomic<Fault>& fault_;
  const std::atomic<int>& after_;
  int acquired_ = 0;
};

}  // namespace

TEST_CASE("A5: a cancel at the n-th point ends the job there, and the same prompt then gives what a fresh actor gives") {
  const unsigned threads = GENERATE(1U, 2U);
  const std::size_t output = 3;
  CancelAt cancel;
  ActorSeams seams;
  seams.on_point = [&cancel] { cancel(); };
  ModelOptions options = tiny_options();
  options.threads = threads;
  options.expert_gb = 0;  // one slot, so that experts never run together: which ones would is the drive's to say
  const auto actor = start(options, seams);
  const Ids reference(golden().greedy.begin(), golden().greedy.begin() + output);
  REQUIRE(generate(*actor, golden().tokens, output) == reference);
  const std::size_t total = cancel.passed;
  REQUIRE(total > 100);
  // The first ones, and a stride that visits each kind. Alone, the model thread takes every block of a product and passes the same
  // points each time, so the last ones can be named too; with a second thread that takes blocks their number varies.
  std::set<std::size_t> where;
  for (std::size_t n = 1; n <= 12; ++n) where.insert(threads == 1 ? total + 1 - n : n);
  for (std::size_t n = 13; n < total - total / 8; n += total / 20) where.insert(n);
  for (const std::size_t n : where) {
    Asker asker;
    cancel.passed = 0;
    cancel.ticket = &asker.ticket();
    cancel.at = n;
    REQUIRE(asker.submit(*actor, greedy_job(golden().tokens, output)).has_value());
    asker.wait();
    INFO("cancelled at point " << n << " of " << total);
    if (threads > 1 && cancel.passed < n) continue;  // the other thread took so many blocks that this run had no such point
    REQUIRE(asker.failed() != nullptr);
    REQUIRE(asker.failed()->error.code == ErrorCode::cancelled);
    REQUIRE(cancel.passed == n);  // not one point further
    cancel.at = 0;
    REQUIRE(generate(*actor, golden().tokens, output) == reference);
  }
}

TEST_CASE("what was committed before a cancel is not computed again") {
  CancelAt cancel;
  ActorSeams seams;
  seams.on_point = [&cancel] { cancel(); };
  ModelOptions options = tiny_options();
  options.chunk = 10;
  options.threads = 1;    // the same points each time
  options.expert_gb = 0;  // likewise: with one slot, experts never run together
  const auto actor = start(options, seams);
  // Count the points up to the end of the prompt with one output token.
  const Ids reference = generate(*actor, golden().tokens, 1);
  const std::size_t total = cancel.passed;
  Asker asker;
  cancel.passed = 0;
  cancel.ticket = &asker.ticket();
  cancel.at = total - 1;  // in the fourth and last chunk
  REQUIRE(asker.submit(*actor, greedy_job(golden().tokens, 1)).has_value());
  asker.wait();
  // The first run left the whole prompt committed, which cannot be stepped back; so this one began anew and committed 30.
  REQUIRE(asker.failed() != nullptr);
  cancel.at = 0;
  Asker again;
  REQUIRE(again.submit(*actor, greedy_job(golden().tokens, 1)).has_value());
  again.wait();
  REQUIRE(again.finished() != nullptr);
  CHECK(again.finished()->cached_tokens == 30);
  CHECK(again.tokens() == reference);
}

TEST_CASE("a drive error or an exception fails the job that met it and no other") {
  using Fault = FaultyStream::Fault;
  std::atomic<Fault> fault{Fault::none};
  std::atomic<int> after{0};
  ActorSeams seams;
  seams.open_experts = [&](const checkpoint::Checkpoint& checkpoint, boost::asio::io_context& context,
                           const experts::StreamOptions& options) -> Result<std::unique_ptr<experts::ExpertStream>> {
    auto inner = experts::ExpertStream::open(checkpoint, context, options);
    if (inner.has_error()) return inner.error();
    return std::unique_ptr<experts::ExpertStream>(std::make_unique<FaultyStream>(std::move(*inner), fault, after));
  };
  const auto actor = start(tiny_options(), seams);
  const Ids reference(golden().greedy.begin(), golden().greedy.begin() + 2);
  for (const Fault kind : {Fault::error, Fault::exception}) {
    for (const int count : {0, 1, 5, 60}) {
      after = count;
      fault = kind;
      Asker asker;
      REQUIRE(asker.submit(*actor, greedy_job(golden().tokens, 2)).has_value());
      asker.wait();
      fault = Fault::none;
      REQUIRE(asker.failed() != nullptr);
      CHECK(asker.failed()->error.code == (kind == Fault::error ? ErrorCode::io : ErrorCode::out_of_memory));
      CHECK(generate(*actor, golden().tokens, 2) == reference);
    }
  }
}

TEST_CASE("a reader that stalls is cancelled, not waited for") {
  const auto actor = start(tiny_options());
  const auto ticket = std::make_shared<Ticket>(3);
  REQUIRE(actor->submit(greedy_job(golden().tokens, 0), ticket).has_value());
  while (unfinished(*actor) > 0) std::this_thread::yield();
  std::size_t events = 0;
  std::optional<Event> last;
  while (auto event = ticket->pop()) {
    ++events;
    last = std::move(event);
  }
  CHECK(events == 4);
  REQUIRE(last.has_value());
  REQUIRE(std::holds_alternative<Failed>(*last));
  CHECK(std::get<Failed>(*last).error.code == ErrorCode::cancelled);
}

TEST_CASE("the actor's end cancels what runs and fails what waits") {
  Asker running, waiting;
  ActorSeams seams;
  std::atomic<bool> once{false};
  seams.on_point = [&] {
    // Holds the job until the destructor has cancelled it.
    if (once.exchange(true)) return;
    while (!running.ticket().stop_token().stop_requested()) std::this_thread::yield();
  };
  {
    const auto actor = start(tiny_options(), seams);
    REQUIRE(running.submit(*actor, greedy_job(golden().tokens, 0)).has_value());
    running.wait_events(2);  // Queued and the first Prefill: it runs
    REQUIRE(waiting.submit(*actor, greedy_job(golden().tokens, 0)).has_value());
  }
  running.wait();
  waiting.wait();
  REQUIRE(running.failed() != nullptr);
  CHECK(running.failed()->error.code == ErrorCode::cancelled);
  REQUIRE(waiting.failed() != nullptr);
  CHECK(waiting.events.size() == 2);
}

TEST_CASE("starting and stopping without a job") {
  for (int i = 0; i < 5; ++i) (void)start(tiny_options());
}
