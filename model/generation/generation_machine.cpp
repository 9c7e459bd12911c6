#include "model/generation/generation_machine.hpp"

#include <algorithm>
#include <cassert>

namespace k3::generation {

GenerationMachine::GenerationMachine(GenerationPlan plan) : plan_(std::move(plan)), prefilled_(plan_.cached_tokens) {
  assert(plan_.cached_tokens < plan_.prompt_tokens && "at least one prompt token must be computed, for its logits");
  assert(plan_.chunk >= 1 && plan_.max_tokens >= 1);
}

GenerationMachine::Action GenerationMachine::step(const Event& event) {
  if (ended()) return last_;
  if (const auto* failure = std::get_if<Failure>(&event)) return stop_with(State::failed, failure->error);
  if (std::holds_alternative<Cancelled>(event)) {
    return stop_with(State::cancelled, fail(ErrorCode::cancelled, "the request was cancelled"));
  }
  if (state_ == State::queued && std::holds_alternative<Begin>(event)) {
    state_ = State::prefill;
    return next_chunk();
  }
  const bool whole_prompt = prefilled_ + running_ == plan_.prompt_tokens;
  if (state_ == State::prefill && std::holds_alternative<ChunkDone>(event) && !whole_prompt) {
    prefilled_ += running_;
    return next_chunk();
  }
  if (const auto* token = std::get_if<Sampled>(&event)) {
    if (state_ == State::decode || (state_ == State::prefill && whole_prompt)) return sampled(token->id);
  }
  return stop_with(State::failed, fail(ErrorCode::internal, "the generation got an event that its state cannot meet"));
}

GenerationMachine::Action GenerationMachine::next_chunk() {
  running_ = std::min(plan_.chunk, plan_.prompt_tokens - prefilled_);
  return RunChunk{prefilled_, running_, prefilled_ + running_ == plan_.prompt_tokens};
}

GenerationMachine::Action GenerationMachine::sampled(std::int32_t id) {
  prefilled_ = plan_.prompt_tokens;
  running_ = 0;
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
