// The common part of all protocols: a planned answer is submitted, or joins the run of an earlier request that was the
// same, and the run's events become a stream or one object.
#pragma once

#include <optional>

#include "model/generation/answer.hpp"
#include "server/answer_shape.hpp"
#include "server/body_context.hpp"
#include "server/client_wait.hpp"
#include "server/request_fields.hpp"
#include "server/shared_run.hpp"

namespace k3::server {

struct AnswerPlan {
  bool chat = true;
  ShapeMaker shape{};  // empty: that of completions
  bool stream = false;
  bool include_usage = false;
  bool progress = false;  // chunks that tell how far the prompt is
  PingStyle ping_style = PingStyle::comment;
  std::chrono::milliseconds ping_interval{};
  Keepalive keepalive = Keepalive::pad;     // of an answer that is not streamed
  std::optional<std::size_t> max_tokens{};  // as asked for
  std::size_t prompt_tokens = 0;            // of the job
  std::size_t unreported = 0;               // of them, those that usage does not count (the opener of the answer's first channel)
  std::vector<std::string> warnings{};      // ASCII; what was accepted but will not be honoured
  std::vector<std::string> ignored{};       // fields that mean nothing here
  generation::AnswerOptions answer{};
  Job job{};
};

// Everything that chat and text completions have in common, from the body's fields into the plan.
void read_answer_fields(Fields& fields, const BodyContext& context, AnswerPlan& plan);

// Bounds the output by what the context leaves, or says by how much the prompt is too long.
std::optional<ApiError> fit_context(AnswerPlan& plan, const ModelInfo& info);

// Answers the request. Exchange, app and wait outlive the call.
asio::awaitable<void> run_answer(Exchange& exchange, App& app, ClientWait& wait, AnswerPlan plan, RunIdentity identity);

}  // namespace k3::server
