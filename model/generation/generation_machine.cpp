#include "model/generation/generation_machine.hpp"

#include <algorithm>
#include <cassert>

namespace k3::generation {

GenerationMachine::GenerationMachine(GenerationPlan plan) : plan_(std::move(plan)), prefilled_(plan_.cached_tokens) {
  assert(plan_.cached_tokens < plan_.prompt_tokens && "at least one prompt token must be computed, for its logits");
  assert(plan_.max_tokens >= 1);
}

GenerationMachine::Action GenerationMachine::step(const Event& event) {
  if (ended()) return last_;
  if (const auto* failure = std::get_if<Failure>(&event)) return stop_with(State::failed, failure->error);
  if (std::holds_alternative<Cancelled>(event)) {
    return stop_with(State::cancelled, fail(ErrorCode::cancelled, "the request was cancelled"));
  }
  if (state_ == State::queued && std::holds_alternative<Begin>(event)) {
    state_ = State::prefill;
    return run_prompt();
  }
  const auto* rows = std::get_if<Prefilled>(&event);
  if (state_ == State::prefill && rows != nullptr && rows->count > 0 && rows->count < plan_.prompt_tokens - prefilled_) {
    prefilled_ += rows->count;
    return run_prompt();
  }
  if (const auto* token = std::get_if<Sampled>(&event)) {
    if (state_ == State::decode || state_ == State::prefill) return sampled(token->id);
  }
  return stop_with(State::failed, fail(ErrorCode::internal, "the generation got an event that its state cannot meet"));
}

GenerationMachine::Action GenerationMachine::sampled(std::int32_t id) {
  prefilled_ = plan_.prompt_tokens;
  state_ = State::decode;
  ++output_tokens_;
  // A stop token at the very limit counts as a stop: the model had finished.
  if (std::find(plan_.stop_ids.begin(), plan_.stop_ids.end(), id) != plan_.stop_ids.end()) return finish(FinishReason::stop);
  if (output_tokens_ == plan_.max_tokens) return finish(FinishReason::length);
  return RunToken{id};
}

GenerationMachine::Action GenerationMachine::finish(FinishReason reason) {
  state_ = State::finished;
  last_ = Finish{reason};
  return last_;
}

GenerationMachine::Action GenerationMachine::stop_with(State state, Error error) {
  state_ = state;
  last_ = Fail{std::move(error)};
  return last_;
}

}  // namespace k3::generation
