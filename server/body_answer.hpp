// From a request's body to its answer. What a body says is worked out by a plain function that touches nothing of the server: a
// small body at once, a large one in the workshop. Then it is answered, by the model where it asks for that.
#pragma once

#include <variant>

#include "server/answer_run.hpp"

namespace k3::server {

// It cannot be known how long it takes: for the workshop (BodyContext::at_leisure).
struct TakesLong {};
using Prepared = std::variant<Response, AnswerPlan, TakesLong>;
using Prepare = Prepared (*)(std::string_view body, const BodyContext& context);

// Answers the request. Exchange and app outlive the call.
asio::awaitable<void> answer_body(Exchange& exchange, App& app, Prepare prepare);

}  // namespace k3::server
