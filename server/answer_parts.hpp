// What streaming and collecting an answer have in common.
#pragma once

#include "server/answer_progress.hpp"

namespace k3::server {

// All live in the frame of run_answer, which awaits those who use them.
struct AnswerParts {
  Exchange& exchange;
  App& app;
  JobRun& run;
  Progress& progress;
  AnswerShape& shape;
  bool logprobs = false;  // were asked for
  const AnswerPlan& plan;
};

// What a client is told of a failure.
ApiError failure_error(const Error& error, const App& app);

// Each is one end of an answer.
void note_failure(AnswerParts& parts);
void note_gone(AnswerParts& parts);
void note_end(AnswerParts& parts);

// The answer, once progress is over without a failure.
AnswerEnd end_of(const AnswerParts& parts);
// Log-probabilities that are due, where they were asked for.
std::vector<generation::SpokenToken> spoken(AnswerParts& parts);

asio::awaitable<void> stream_answer(AnswerParts& parts, Headers headers);
asio::awaitable<void> collect_answer(AnswerParts& parts, Headers headers);

}  // namespace k3::server
