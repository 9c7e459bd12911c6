// The JSON of answers, as OpenAI's clients expect it. Pure functions of their arguments.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "model/text/json.hpp"
#include "server/answer_shape.hpp"

namespace k3::server {

// The implementations of AnswerShape that are OpenAI's older ones. `head.chat` says which of the two it is.
std::unique_ptr<AnswerShape> completion_shape(AnswerHead head);

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

// The seconds and bytes of an answer, as a member of the object being written. Every shape has them.
void write_timings(json::Writer& writer, const Usage& usage);
// How far the prompt is, likewise.
void write_progress(json::Writer& writer, const ProgressReport& report);

std::string model_object(const ModelInfo& info, std::int64_t created);
std::string model_list(const ModelInfo& info, std::int64_t created);

}  // namespace k3::server
