// The JSON of answers, as OpenAI's clients expect it. Pure functions of their arguments.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "model/text/channel_parser.hpp"
#include "model/ticket.hpp"
#include "server/logprobs_shape.hpp"

namespace k3::server {

// What every object of one answer repeats.
struct AnswerHead {
  bool chat = true;  // else a text completion
  std::string id, model, fingerprint;
  std::int64_t created = 0;
  const text::Tokenizer* tokenizer = nullptr;  // where log-probabilities were asked for
};

// How far a prompt is, or how far from its turn.
struct ProgressReport {
  Prefill prefill;
  std::int64_t milliseconds = 0;          // since the request was taken in
  std::optional<std::size_t> position{};  // while it waits: jobs before it
  std::optional<double> turn_in_s{};      // and an estimate, where anything was measured
};

struct Usage {
  std::size_t prompt = 0, completion = 0, cached = 0, reasoning = 0;
  Timings timings;
};

std::string role_chunk(const AnswerHead& head);
std::string empty_chunk(const AnswerHead& head);  // of a choice that says nothing: a sign of life
// nullopt: this delta says nothing to a client (the end of a tool call).
std::optional<std::string> delta_chunk(const AnswerHead& head, const text::Delta& delta);
// Content with its tokens' log-probabilities. `offset`: characters of the text so far; moves on.
std::string content_chunk(const AnswerHead& head, std::string_view content, Spoken tokens, std::size_t& offset);
std::string progress_chunk(const AnswerHead& head, const ProgressReport& report);
std::string finish_chunk(const AnswerHead& head, std::string_view reason, const Usage& usage);
std::string usage_chunk(const AnswerHead& head, const Usage& usage);

std::string whole_answer(const AnswerHead& head, const text::ParsedMessage& message, Spoken tokens, std::string_view reason,
                         const Usage& usage);

std::string model_object(const ModelInfo& info, std::int64_t created);
std::string model_list(const ModelInfo& info, std::int64_t created);

}  // namespace k3::server
