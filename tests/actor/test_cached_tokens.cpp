// What a prompt would find computed, told without asking the model thread.
#include <thread>

#include "tests/actor/support.hpp"

using namespace k3;
using namespace k3::actor_test;

namespace {

// The tokens of the answer.
Ids run(Actor& actor, const Ids& prompt, std::size_t tokens, std::size_t cached) {
  Asker asker;
  REQUIRE(asker.submit(actor, greedy_job(prompt, tokens)).has_value());
  asker.wait();
  REQUIRE(asker.finished() != nullptr);
  CHECK(asker.finished()->cached_tokens == cached);
  // Its conversation is given back before it counts as ended.
  while (unfinished(actor) > 0) std::this_thread::yield();
  return asker.tokens();
}

}  // namespace

TEST_CASE("cached_tokens() tells what the next run finds") {
  const auto actor = start(tiny_options());
  const Ids prompt(golden().tokens.begin(), golden().tokens.begin() + 20);
  CHECK(actor->cached_tokens(prompt) == 0);
  const Ids answer = run(*actor, prompt, 6, 0);
  // A prompt that is no longer than what was computed cannot go on from there.
  CHECK(actor->cached_tokens(prompt) == 0);
  Ids next = prompt;
  next.insert(next.end(), answer.begin(), answer.end() - 1);
  CHECK(actor->cached_tokens(next) == 0);
  next.push_back(answer.back());
  // The answer's last token was never fed.
  CHECK(actor->cached_tokens(next) == 25);
  Ids other = next;
  other.front() = other.front() == 1 ? 2 : 1;
  CHECK(actor->cached_tokens(other) == 0);
  run(*actor, next, 1, 25);
  CHECK(actor->cached_tokens(next) == 0);
  next.push_back(1);
  CHECK(actor->cached_tokens(next) == 26);
  run(*actor, next, 1, 26);
}
