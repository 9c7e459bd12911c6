// Admission, order, positions, progress and refusal.
#include <atomic>
#include <thread>

#include "tests/actor/support.hpp"

using namespace k3;
using namespace k3::actor_test;

namespace {

Ids some_prompt(std::size_t n = 8) {
  return Ids(golden().tokens.begin(), golden().tokens.begin() + static_cast<std::ptrdiff_t>(n));
}

std::vector<std::size_t> positions(const Asker& asker) {
  std::vector<std::size_t> out;
  for (const Queued& q : asker.all<Queued>()) out.push_back(q.position);
  return out;
}

}  // namespace

TEST_CASE("jobs run in order and learn their position; one cancelled while it waits never runs") {
  Gate gate;
  ActorSeams seams;
  seams.on_point = [&gate] { gate.arrive(); };
  const auto actor = start(tiny_options(), seams);
  Asker a, b, c, d;
  REQUIRE(a.submit(*actor, greedy_job(some_prompt(), 2)).has_value());
  gate.wait_for_arrival();
  REQUIRE(b.submit(*actor, greedy_job(some_prompt(), 2)).has_value());
  REQUIRE(c.submit(*actor, greedy_job(some_prompt(), 2)).has_value());
  CHECK(actor->status().running == 1);
  CHECK(actor->status().queued == 2);
  b.ticket().cancel();
  REQUIRE(d.submit(*actor, greedy_job(some_prompt(), 2)).has_value());
  b.wait();  // told at once, not when its turn would have come
  CHECK(actor->status().queued == 2);
  gate.open();
  a.wait();
  c.wait();
  d.wait();
  CHECK(positions(a) == std::vector<std::size_t>{0});
  CHECK(positions(b) == std::vector<std::size_t>{0});
  CHECK(positions(c) == std::vector<std::size_t>{1, 0});
  CHECK(positions(d) == std::vector<std::size_t>{1, 0});
  REQUIRE(b.failed() != nullptr);
  CHECK(b.failed()->error.code == ErrorCode::cancelled);
  CHECK(b.events.size() == 2);  // Queued and Failed: no Prefill, no Token
  for (const Asker* asker : {&a, &c, &d}) CHECK(asker->finished() != nullptr);
}

TEST_CASE("one cancelled while it waits is skipped when its turn comes") {
  Gate gate;
  ActorSeams seams;
  seams.on_point = [&gate] { gate.arrive(); };
  const auto actor = start(tiny_options(), seams);
  Asker a, b, c;
  REQUIRE(a.submit(*actor, greedy_job(some_prompt(), 1)).has_value());
  gate.wait_for_arrival();
  REQUIRE(b.submit(*actor, greedy_job(some_prompt(), 1)).has_value());
  REQUIRE(c.submit(*actor, greedy_job(some_prompt(), 1)).has_value());
  b.ticket().cancel();
  gate.open();
  c.wait();
  b.wait();
  CHECK(b.failed() != nullptr);
  CHECK(b.events.size() == 2);
  CHECK(c.finished() != nullptr);
}

TEST_CASE("a full queue refuses, and a withdrawn job makes room") {
  Gate gate;
  ActorSeams seams;
  seams.on_point = [&gate] { gate.arrive(); };
  ModelOptions options = tiny_options();
  options.queue_capacity = 2;
  const auto actor = start(options, seams);
  Asker running, first, second, refused, late;
  REQUIRE(running.submit(*actor, greedy_job(some_prompt(), 1)).has_value());
  gate.wait_for_arrival();
  REQUIRE(first.submit(*actor, greedy_job(some_prompt(), 1)).has_value());
  REQUIRE(second.submit(*actor, greedy_job(some_prompt(), 1)).has_value());
  const auto full = refused.submit(*actor, greedy_job(some_prompt(), 1));
  REQUIRE(full.has_error());
  CHECK(full.error().code == ErrorCode::overloaded);
  CHECK_FALSE(refused.ticket().pop().has_value());  // a refused job hears nothing more
  first.ticket().cancel();
  CHECK(late.submit(*actor, greedy_job(some_prompt(), 1)).has_value());
  gate.open();
  CHECK(second.wait().finished() != nullptr);
  CHECK(late.wait().finished() != nullptr);
}

TEST_CASE("many askers at once are all answered alike") {
  const auto actor = start(tiny_options());
  std::vector<Asker> askers(12);
  {
    std::vector<std::jthread> threads;
    for (std::size_t t = 0; t < 3; ++t) {
      threads.emplace_back([&, t] {
        for (std::size_t i = t; i < askers.size(); i += 3) {
          if (askers[i].submit(*actor, greedy_job(some_prompt(), 2)).has_error()) std::abort();
          (void)actor->status();
        }
      });
    }
  }
  for (Asker& asker : askers) CHECK(asker.wait().tokens() == askers[0].wait().tokens());
}

TEST_CASE("the context limit holds, and names both numbers") {
  ModelOptions options = tiny_options();
  options.max_context = 30;
  const auto actor = start(options);
  CHECK(actor->info().context_limit == 30);
  Asker long_one;
  const auto refused = long_one.submit(*actor, greedy_job(golden().tokens, 1));
  REQUIRE(refused.has_error());
  CHECK(refused.error().code == ErrorCode::invalid_argument);
  CHECK(refused.error().message.find("maximum context length is 30 tokens") != std::string::npos);
  CHECK(refused.error().message.find("has 40") != std::string::npos);
  CHECK(Asker().submit(*actor, greedy_job(some_prompt(30), 1)).has_error());
  for (const std::size_t max_tokens : {0, 100}) {  // to the limit, and clamped to it
    Asker asker;
    REQUIRE(asker.submit(*actor, greedy_job(some_prompt(26), max_tokens)).has_value());
    asker.wait();
    REQUIRE(asker.finished() != nullptr);
    CHECK(asker.finished()->output_tokens == 4);
    CHECK(asker.finished()->reason == FinishReason::length);
  }
}

TEST_CASE("jobs that make no sense are refused before they wait") {
  const auto actor = start(tiny_options());
  Asker asker;
  const auto code = [&](Job job) { return asker.submit(*actor, std::move(job)).error().code; };
  CHECK(code(greedy_job({}, 1)) == ErrorCode::invalid_argument);
  CHECK(code(greedy_job({1, 512}, 1)) == ErrorCode::invalid_argument);
  CHECK(code(greedy_job({-1}, 1)) == ErrorCode::invalid_argument);
  Job job = greedy_job({1}, 1);
  job.sampling.top_p = 0;
  CHECK(code(job) == ErrorCode::invalid_argument);
}

TEST_CASE("progress is told at the start, at the end and once a second between") {
  std::atomic<int> calls{0};
  ActorSeams seams;
  seams.clock = [&calls] { return std::chrono::steady_clock::time_point(std::chrono::milliseconds(400 * calls++)); };
  ModelOptions options = tiny_options();
  options.chunk = 4;
  const auto actor = start(options, seams);
  Asker asker;
  REQUIRE(asker.submit(*actor, greedy_job(golden().tokens, 1)).has_value());
  asker.wait();
  std::vector<std::size_t> done;
  for (const Prefill& p : asker.all<Prefill>()) {
    CHECK(p.total == 40);
    CHECK(p.cached == 0);
    done.push_back(p.done);
  }
  CHECK(done == std::vector<std::size_t>{0, 12, 24, 36, 40});  // a clock read a chunk: every third is a second later
  REQUIRE(asker.finished() != nullptr);
  CHECK(asker.finished()->timings.prefill_s > 0);
  CHECK(asker.finished()->timings.queued_s > 0);
}

TEST_CASE("a model that cannot be started says why") {
  ModelOptions options = tiny_options();
  options.isa = "sse1";
  auto error = Actor::start(options).error();
  CHECK(error.code == ErrorCode::invalid_argument);
  CHECK(error.expected.find("scalar") != std::string::npos);
  CHECK(error.got == "sse1");
  options = tiny_options();
  options.max_context = 1'000'000;
  CHECK(Actor::start(options).error().expected.find("4096") != std::string::npos);
  options = tiny_options();
  options.directory = K3_TEST_DATA "/no-such-model";
  CHECK(Actor::start(options).has_error());
  options = tiny_options();
  options.ram_gb = 0.01;
  CHECK(Actor::start(options).error().code == ErrorCode::out_of_memory);
  ActorSeams seams;
  seams.open_experts = [](const auto&, auto&, const auto&) -> Result<std::unique_ptr<experts::ExpertStream>> {
    return fail(ErrorCode::io, "no drive");
  };
  CHECK(Actor::start(tiny_options(), seams).error().message == "no drive");
}

TEST_CASE("what the model says of itself") {
  const auto actor = start(tiny_options());
  CHECK(actor->info().id == "model");
  CHECK(actor->info().vocabulary == 512);
  CHECK(actor->info().context_limit == 4096);
  ModelOptions other = tiny_options();
  other.id = "named";
  other.layers = 5;
  const auto second = start(other);
  CHECK(second->info().id == "named");
  CHECK(second->info().fingerprint != actor->info().fingerprint);
  CHECK(start(tiny_options())->info().fingerprint == actor->info().fingerprint);
  CHECK(generate(*second, golden().tokens, 1).size() == 1);  // fewer layers run
}
