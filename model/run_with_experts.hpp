// Runs a coroutine that needs experts, outside the actor: for tools that drive Forward themselves.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <functional>

#include "model/loaded_model.hpp"

namespace k3 {

// `task` gets an ExpertStream of its own on a private io_context, which is drained before this returns. What the task throws is an
// error too. Call from one thread at a time.
using ExpertTask = std::function<boost::asio::awaitable<Result<void>>(experts::ExpertStream&)>;
Result<void> run_with_experts(const LoadedModel& model, const ExpertTask& task);

}  // namespace k3
