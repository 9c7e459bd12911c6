// Where a test may reach into the actor. Empty functions mean the real thing.
#pragma once

#include <chrono>
#include <functional>

#include "model/experts/expert_stream.hpp"

namespace k3 {

struct ActorSeams {
  // All times the actor reads. Called from the askers' threads (submit) and from the model thread.
  std::function<std::chrono::steady_clock::time_point()> clock;
  // Called on the model thread at each cancellation point of a running job (Forward's and those between tokens), before its stop
  // token is read.
  std::function<void()> on_point;
  // Called on the model thread in place of ExpertStream::open.
  std::function<Result<std::unique_ptr<experts::ExpertStream>>(const checkpoint::Checkpoint&, boost::asio::io_context&,
                                                               const experts::StreamOptions&)>
      open_experts;
};

}  // namespace k3
