// The shape of an answer: what of it goes over the wire, and in which events. A run is the same whatever the protocol it was asked
// for in; chat, text completions, Messages and Responses are four implementations of this.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/generation/answer.hpp"
#include "model/text/channel_parser.hpp"
#include "model/ticket.hpp"
#include "server/http_io.hpp"
#include "server/logprobs_shape.hpp"
#include "server/server.hpp"

namespace k3::server {

// What every object of one answer repeats.
struct AnswerHead {
  bool chat = true;  // else a text completion
  std::string id;    // its digits, before which each shape sets its own letters
  std::string model, fingerprint;
  std::int64_t created = 0;
  const text::Tokenizer* tokenizer = nullptr;  // where log-probabilities were asked for
  std::size_t prompt_tokens = 0;               // as usage counts them
  bool include_usage = false;                  // a stream of completions ends with a chunk of usage
  bool choice_usage = false;                   // and its last choice has it too
  std::string request{};                       // its id
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

// An answer that is complete. Lives as long as what it was taken from.
struct AnswerEnd {
  const text::ParsedMessage& message;
  std::string_view reason;       // "stop", "length" or "tool_calls"
  std::string_view stop_string;  // the one that ended it; empty: none did
  generation::CutIn cut;         // what was still open when the tokens ran out
  Usage usage;
};

// Events of a stream as they are sent, each of which is written by itself.
using Frames = std::vector<std::string>;

// One client's view of one answer; a stream calls these in the order in which they stand here. What a shape was made of outlives
// it.
class AnswerShape {
 public:
  virtual ~AnswerShape() = default;

  // --- as a stream ---
  virtual Frames opening(PingStyle style) = 0;  // right behind the head, even while the request is queued
  virtual Frames sign_of_life(PingStyle style,
                              const ProgressReport* waiting) = 0;  // `waiting`: while another's turn is on, else null
  virtual Frames progress(const ProgressReport& report) = 0;       // for those who asked for reports
  // `tokens`: those of the content whose text has come out since the last call, where log-probabilities were asked for.
  virtual Frames more(std::span<const text::Delta> deltas, Spoken tokens) = 0;
  // Exactly one of these two is the last.
  virtual Frames end(const AnswerEnd& end) = 0;
  virtual Frames failure(const ApiError& error) = 0;

  // --- as one object, instead of all that ---
  virtual std::string whole(const AnswerEnd& end, Spoken tokens) = 0;
};

using ShapeMaker = std::function<std::unique_ptr<AnswerShape>(AnswerHead head)>;

// What a ping says while a request waits its turn, and otherwise.
std::string ping_text(const ProgressReport* waiting);

}  // namespace k3::server
