#include <string>

#include "model/generation/generation_machine.hpp"
#include "tests/catch.hpp"

using namespace k3;
using Machine = k3::generation::GenerationMachine;
using k3::generation::GenerationPlan;

namespace {

GenerationPlan plan() { return {.prompt_tokens = 10, .cached_tokens = 3, .max_tokens = 3, .stop_ids = {99}}; }

std::string show(const Machine::Action& action) {
  if (const auto* a = std::get_if<Machine::RunPrompt>(&action)) {
    return "prompt " + std::to_string(a->first) + "+" + std::to_string(a->count);
  }
  if (const auto* a = std::get_if<Machine::RunToken>(&action)) return "token " + std::to_string(a->id);
  if (const auto* a = std::get_if<Machine::Finish>(&action))
    return a->reason == FinishReason::stop ? "finish stop" : "finish length";
  const auto code = std::get<Machine::Fail>(action).error.code;
  return code == ErrorCode::cancelled ? "fail cancelled" : code == ErrorCode::io ? "fail io" : "fail other";
}

struct Step {
  Machine::Event event;
  std::string answer;
};

const std::vector<Step>& whole_run() {
  static const std::vector<Step> steps = {
      {Machine::Begin{}, "prompt 3+7"}, {Machine::Prefilled{3}, "prompt 6+4"}, {Machine::Prefilled{3}, "prompt 9+1"},
      {Machine::Sampled{5}, "token 5"}, {Machine::Sampled{6}, "token 6"},      {Machine::Sampled{7}, "finish length"},
  };
  return steps;
}

}  // namespace

TEST_CASE("a generation from its turn to its last token") {
  Machine machine(plan());
  CHECK(machine.state() == Machine::State::queued);
  for (const Step& step : whole_run()) CHECK(show(machine.step(step.event)) == step.answer);
  CHECK(machine.state() == Machine::State::finished);
  CHECK(machine.output_tokens() == 3);
  CHECK(machine.prefilled() == 10);
  CHECK(show(machine.step(Machine::Cancelled{})) == "finish length");  // too late: it has ended
  CHECK(machine.state() == Machine::State::finished);
}

TEST_CASE("a cancel or a failure before each step ends the generation there") {
  const std::vector<std::size_t> prefilled = {3, 3, 6, 9, 10, 10}, output = {0, 0, 0, 0, 1, 2};
  for (std::size_t at = 0; at < whole_run().size(); ++at) {
    for (const bool cancel : {true, false}) {
      Machine machine(plan());
      for (std::size_t i = 0; i < at; ++i) machine.step(whole_run()[i].event);
      const Machine::Event event =
          cancel ? Machine::Event(Machine::Cancelled{}) : Machine::Event(Machine::Failure{fail(ErrorCode::io, "drive")});
      const std::string answer = cancel ? "fail cancelled" : "fail io";
      INFO(at);
      CHECK(show(machine.step(event)) == answer);
      CHECK(machine.state() == (cancel ? Machine::State::cancelled : Machine::State::failed));
      CHECK(machine.prefilled() == prefilled[at]);
      CHECK(machine.output_tokens() == output[at]);
      // Whatever comes late does not wake it.
      for (const Step& late : whole_run()) CHECK(show(machine.step(late.event)) == answer);
      CHECK(machine.output_tokens() == output[at]);
    }
  }
}

TEST_CASE("a stop id ends the answer, at the limit too") {
  Machine machine(plan());
  for (std::size_t i = 0; i < 4; ++i) machine.step(whole_run()[i].event);
  CHECK(show(machine.step(Machine::Sampled{99})) == "finish stop");
  GenerationPlan one = plan();
  one.max_tokens = 1;
  Machine last(one);
  CHECK(show(last.step(Machine::Begin{})) == "prompt 3+7");
  CHECK(show(last.step(Machine::Sampled{99})) == "finish stop");
}

TEST_CASE("an event the state cannot meet fails the generation") {
  const std::vector<std::vector<Machine::Event>> impossible = {
      {Machine::Prefilled{1}},
      {Machine::Sampled{1}},
      {Machine::Begin{}, Machine::Begin{}},
      {Machine::Begin{}, Machine::Prefilled{0}},
      {Machine::Begin{}, Machine::Prefilled{8}},
      {Machine::Begin{}, Machine::Prefilled{3}, Machine::Prefilled{4}},  // the last rows end with a token
      {Machine::Begin{}, Machine::Sampled{1}, Machine::Prefilled{1}},
  };
  for (const auto& events : impossible) {
    Machine machine(plan());
    Machine::Action action = Machine::Finish{};
    for (const auto& event : events) action = machine.step(event);
    CHECK(show(action) == "fail other");
    CHECK(machine.state() == Machine::State::failed);
  }
}
