// The JSON of answers, as OpenAI's clients expect it. Pure functions of their arguments.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "model/text/channel_parser.hpp"
#include "model/ticket.hpp"

namespace k3::server {

// What every object of one answer repeats.
struct AnswerHead {
  bool chat = true;  // else a text completion
  std::string id, model, fingerprint;
  std::int64_t created = 0;
};

struct Usage {
  std::size_t prompt = 0, completion = 0, cached = 0, reasoning = 0;
  Timings timings;
};

std::string role_chunk(const AnswerHead& head);
// nullopt: this delta says nothing to a client (the end of a tool call).
std::optional<std::string> delta_chunk(const AnswerHead& head, const text::Delta& delta);
std::string progress_chunk(const AnswerHead& head, const Prefill& prefill, std::int64_t milliseconds);
std::string finish_chunk(const AnswerHead& head, std::string_view reason, const Usage& usage);
std::string usage_chunk(const AnswerHead& head, const Usage& usage);

std::string whole_answer(const AnswerHead& head, const text::ParsedMessage& message, std::string_view reason, const Usage& usage);

std::string model_object(const ModelInfo& info, std::int64_t created);
std::string model_list(const ModelInfo& info, std::int64_t created);

}  // namespace k3::server
