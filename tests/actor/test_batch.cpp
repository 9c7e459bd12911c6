// Several jobs at once: each gets what it would get alone, and what befalls one is no other's business.
#include <array>
#include <atomic>
#include <new>
#include <set>
#include <thread>

#include "tests/actor/support.hpp"
#include "tests/passing_stream.hpp"

using namespace k3;
using namespace k3::actor_test;
using experts::ExpertKey;

namespace {

Ids part_of_golden(std::size_t first, std::size_t count) {
  const auto begin = golden().tokens.begin() + static_cast<std::ptrdiff_t>(first);
  return {begin, begin + static_cast<std::ptrdiff_t>(count)};
}

// Of different lengths, drawn in different ways.
std::vector<Job> some_jobs() {
  std::vector<Job> jobs{greedy_job(part_of_golden(0, 23), 9), greedy_job(part_of_golden(5, 3), 14),
                        greedy_job(part_of_golden(11, 29), 1), greedy_job(part_of_golden(0, 10), 6)};
  jobs[1].sampling.temperature = 1;
  jobs[1].sampling.seed = 4;
  jobs[3].sampling.temperature = 0.7F;
  jobs[3].sampling.repetition_penalty = 1.3F;
  return jobs;
}

ModelOptions together(std::size_t jobs) {
  ModelOptions options = tiny_options();
  options.parallel = jobs;
  return options;
}

Ids alone(const Job& job) {
  const auto actor = start(tiny_options());
  Asker asker;
  REQUIRE(asker.submit(*actor, job).has_value());
  REQUIRE(asker.wait().finished() != nullptr);
  return asker.tokens();
}

// Runs jobs that are all there before the first has computed anything.
struct Together {
  Gate gate;
  ActorSeams seams;
  std::vector<Asker> askers;

  std::unique_ptr<Actor> run(const ModelOptions& options, const std::vector<Job>& jobs) {
    const auto inner = seams.on_point;
    seams.on_point = [this, inner] {
      gate.arrive();
      if (inner) inner();
    };
    auto actor = start(options, seams);
    askers = std::vector<Asker>(jobs.size());
    for (std::size_t i = 0; i < jobs.size(); ++i) {
      REQUIRE(askers[i].submit(*actor, jobs[i]).has_value());
      if (i == 0) gate.wait_for_arrival();
    }
    gate.open();
    return actor;
  }
};

// Meddles with one expert.
class SpoiltStream final : public test::PassingStream {
 public:
  struct Plan {
    std::set<ExpertKey> seen;
    std::optional<ExpertKey> bad;
    bool throws = false;
  };
  SpoiltStream(std::unique_ptr<ExpertStream> inner, Plan& plan) : PassingStream(std::move(inner)), plan_(plan) {}

  boost::asio::awaitable<Result<experts::Lease>> acquire(ExpertKey key, std::stop_token stop) override {
    plan_.seen.insert(key);
    if (key == plan_.bad && plan_.throws) throw std::bad_alloc();
    if (key == plan_.bad) co_return fail(ErrorCode::io, "a bad sector");
    Result<experts::Lease> lease = co_await inner().acquire(key, stop);
    co_return lease;
  }

 private:
  Plan& plan_;
};

auto spoiling(SpoiltStream::Plan& plan) {
  return [&plan](const checkpoint::Checkpoint& checkpoint, boost::asio::io_context& context,
                 const experts::StreamOptions& options) -> Result<std::unique_ptr<experts::ExpertStream>> {
    auto inner = experts::ExpertStream::open(checkpoint, context, options);
    if (inner.has_error()) return inner.error();
    return std::unique_ptr<experts::ExpertStream>(std::make_unique<SpoiltStream>(std::move(*inner), plan));
  };
}

std::uint64_t bytes_read(const Actor& actor) { return actor.status().work.drive.expert_bytes; }

}  // namespace

TEST_CASE("jobs that run together get the tokens that each gets alone, whatever the rows of a step") {
  const std::vector<Job> jobs = some_jobs();
  std::vector<Ids> expected;
  for (const Job& job : jobs) expected.push_back(alone(job));
  for (const std::size_t chunk : {1U, 2U, 5U, 64U}) {
    for (const std::size_t parallel : {2U, 3U, 4U}) {
      CAPTURE(chunk, parallel);
      ModelOptions options = together(parallel);
      options.chunk = chunk;
      Together all;
      const auto actor = all.run(options, jobs);
      for (std::size_t i = 0; i < jobs.size(); ++i) {
        CAPTURE(i);
        all.askers[i].wait();
        REQUIRE(all.askers[i].finished() != nullptr);
        CHECK(all.askers[i].tokens() == expected[i]);
        CHECK(all.askers[i].finished()->prompt_tokens == jobs[i].prompt.size());
        CHECK(all.askers[i].finished()->output_tokens == expected[i].size());
      }
      CHECK(actor->status().queued == 0);
    }
  }
}

TEST_CASE("two that decode together read less than each alone") {
  const std::vector<Job> jobs{greedy_job(part_of_golden(0, 4), 20), greedy_job(part_of_golden(20, 4), 20)};
  std::uint64_t apart = 0;
  for (const Job& job : jobs) {
    ModelOptions options = tiny_options();
    options.expert_gb = 0;  // one slot: each step reads all it needs
    options.predict = PredictionMode::off;
    const auto actor = start(options);
    generate(*actor, job.prompt, job.max_tokens);
    apart += bytes_read(*actor);
  }
  ModelOptions options = together(2);
  options.expert_gb = 0;
  options.predict = PredictionMode::off;
  Together both;
  const auto actor = both.run(options, jobs);
  for (Asker& asker : both.askers) REQUIRE(asker.wait().finished() != nullptr);
  CHECK(bytes_read(*actor) < apart);
  CHECK(2 * bytes_read(*actor) > apart);  // they are different texts
}

TEST_CASE("one joins while another decodes, and both may have begun alike") {
  const Job first = greedy_job(part_of_golden(0, 20), 30), second = greedy_job(part_of_golden(0, 21), 10);
  const Ids expected_first = alone(first), expected_second = alone(second);
  const auto actor = start(together(2));
  Asker a, b;
  REQUIRE(a.submit(*actor, first).has_value());
  while (a.all<Token>().size() < 5) a.wait_events(a.events.size() + 1);
  REQUIRE(b.submit(*actor, second).has_value());
  b.wait();
  a.wait();
  CHECK(a.tokens() == expected_first);
  CHECK(b.tokens() == expected_second);
}

TEST_CASE("a cancel of one at any point leaves the other what it gets alone") {
  const std::vector<Job> jobs{greedy_job(part_of_golden(0, 12), 3), greedy_job(part_of_golden(12, 10), 4)};
  const Ids expected = alone(jobs[1]);
  ModelOptions options = together(2);
  options.threads = 1;
  options.expert_gb = 0;
  options.chunk = 8;
  std::size_t total = 0;
  for (std::size_t n = 1; n == 1 || n < total; n += n == 1 ? 1 : 1 + total / 40) {
    std::atomic<std::size_t> passed{0}, at{0};
    Together both;
    both.seams.on_point = [&] {
      if (++passed == at) both.askers[0].ticket().cancel();
    };
    at = n == 1 ? 0 : n;  // the first time, only counts
    const auto actor = both.run(options, jobs);
    both.askers[1].wait();
    both.askers[0].wait();
    CAPTURE(n, total);
    REQUIRE(both.askers[1].finished() != nullptr);
    CHECK(both.askers[1].tokens() == expected);
    if (n == 1) {
      total = passed;
    } else if (both.askers[0].finished() == nullptr) {
      CHECK(both.askers[0].failed()->error.code == ErrorCode::cancelled);
    }
  }
  CHECK(total > 200);
}

TEST_CASE("an expert that cannot be read, or an exception, fails the job that needs it and not its company") {
  const std::vector<Job> jobs{greedy_job(part_of_golden(0, 6), 3), greedy_job(part_of_golden(17, 6), 3)};
  std::array<std::set<ExpertKey>, 2> needed;
  std::array<Ids, 2> expected;
  for (std::size_t i = 0; i < 2; ++i) {
    SpoiltStream::Plan plan;
    ActorSeams seams;
    seams.open_experts = spoiling(plan);
    const auto actor = start(tiny_options(), seams);
    expected[i] = generate(*actor, jobs[i].prompt, jobs[i].max_tokens);
    needed[i] = plan.seen;
  }
  const auto only_first = std::find_if(needed[0].begin(), needed[0].end(), [&](ExpertKey key) { return !needed[1].contains(key); });
  REQUIRE(only_first != needed[0].end());
  for (const bool throws : {false, true}) {
    CAPTURE(throws);
    SpoiltStream::Plan plan;
    plan.bad = *only_first;
    plan.throws = throws;
    Together both;
    both.seams.open_experts = spoiling(plan);
    const auto actor = both.run(together(2), jobs);
    for (Asker& asker : both.askers) asker.wait();
    REQUIRE(both.askers[0].failed() != nullptr);
    CHECK(both.askers[0].failed()->error.code == (throws ? ErrorCode::out_of_memory : ErrorCode::io));
    REQUIRE(both.askers[1].finished() != nullptr);
    CHECK(both.askers[1].tokens() == expected[1]);
    CHECK(generate(*actor, jobs[1].prompt, jobs[1].max_tokens) == expected[1]);
  }
}

TEST_CASE("a long prompt leaves who decodes half of the time, and tokens in every step") {
  // A point is a moment: a step of many rows has more of them than one of few.
  std::atomic<std::int64_t> points{0};
  ActorSeams seams;
  seams.clock = [&points] { return std::chrono::steady_clock::time_point(std::chrono::milliseconds(points.load())); };
  seams.on_point = [&points] { ++points; };
  ModelOptions options = together(2);
  options.chunk = 8;
  options.threads = 1;
  const auto actor = start(options, seams);
  std::atomic<std::size_t> drawn{0}, drawn_before{0}, drawn_meanwhile{0}, told{0};
  const auto decoding = std::make_shared<Ticket>(4096), reading = std::make_shared<Ticket>(4096);
  decoding->on_event([&] { ++drawn; });
  reading->on_event([&] {
    if (++told == 2) drawn_before = drawn.load();  // Queued, then Prefill: its turn has come
    drawn_meanwhile = drawn - drawn_before;
  });
  REQUIRE(actor->submit(greedy_job(part_of_golden(0, 2), 400), decoding).has_value());
  while (drawn < 5) std::this_thread::yield();
  REQUIRE(actor->submit(greedy_job(golden().tokens, 1), reading).has_value());
  while (unfinished(*actor) > 1) std::this_thread::yield();
  decoding->cancel();
  while (actor->status().running > 0) std::this_thread::yield();
  // 40 prompt tokens, 7 a step beside the other's one, are six steps; and as much time again is many more steps of one row.
  CHECK(drawn_meanwhile >= 12);
  CHECK(drawn_meanwhile < 400);
  std::optional<Event> last;
  while (auto event = reading->pop()) last = std::move(event);
  CHECK(std::holds_alternative<Finished>(*last));
}

TEST_CASE("a step is given up when most of its rows are wanted by nobody, and only then") {
  const bool cancel_reader = GENERATE(true, false);
  std::atomic<std::size_t> drawn{0}, told{0}, points{0}, before{0}, at_end{0};
  std::atomic<bool> cancelled{false};
  const auto decoding = std::make_shared<Ticket>(4096), reading = std::make_shared<Ticket>(4096);
  ActorSeams seams;
  seams.on_point = [&] {
    if (told < 2 || ++points != 30) return;  // well within the first step that has rows of both: 1 and 7
    before = drawn.load();
    cancelled = true;
    (cancel_reader ? reading : decoding)->cancel();
  };
  std::atomic<std::size_t> points_after{0};
  ModelOptions options = together(2);
  options.chunk = 8;
  options.threads = 1;
  const auto actor = start(options, seams);
  decoding->on_event([&] {
    ++drawn;
    if (cancelled && !cancel_reader && points_after == 0) points_after = points - 30;
  });
  reading->on_event([&] {
    ++told;
    if (cancelled && cancel_reader && points_after == 0) points_after = points - 30;
    if (cancelled && cancel_reader) at_end = drawn.load();
  });
  REQUIRE(actor->submit(greedy_job(part_of_golden(0, 2), 400), decoding).has_value());
  while (drawn < 5) std::this_thread::yield();
  REQUIRE(actor->submit(greedy_job(golden().tokens, 400), reading).has_value());
  while (!cancelled || actor->status().running > 1) std::this_thread::yield();
  std::optional<Event> last;
  while (auto event = (cancel_reader ? reading : decoding)->pop()) last = std::move(event);
  REQUIRE(std::holds_alternative<Failed>(*last));
  CHECK(std::get<Failed>(*last).error.code == ErrorCode::cancelled);
  if (cancel_reader) {
    CHECK(points_after == 0);  // not one point further
    CHECK(at_end == before);   // the other's token of that step was not drawn
  } else {
    CHECK(points_after > 100);  // the step went on, for its other rows
  }
  (cancel_reader ? decoding : reading)->cancel();
}

TEST_CASE("the actor's end fails all that run") {
  const std::vector<Job> jobs{greedy_job(part_of_golden(0, 6), 0), greedy_job(part_of_golden(7, 6), 0),
                              greedy_job(part_of_golden(3, 6), 0)};
  Together all;
  { const auto actor = all.run(together(2), jobs); }
  for (Asker& asker : all.askers) {
    asker.wait();
    REQUIRE(asker.failed() != nullptr);
    CHECK((asker.failed()->error.code == ErrorCode::cancelled || asker.failed()->error.code == ErrorCode::overloaded));
  }
}

TEST_CASE("no job at once is no way to run") { CHECK(Actor::start(together(0)).error().code == ErrorCode::invalid_argument); }
