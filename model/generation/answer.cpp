#include "model/generation/answer.hpp"

#include "model/generation/stop_matcher.hpp"

namespace k3::generation {

using text::Delta;

struct Answer::State {
  State(const text::Tokenizer& t, AnswerOptions o)
      : tokenizer(t),
        plain(o.plain),
        logprobs(o.logprobs),
        parser(t, o.thinking, o.first_call_index),
        matcher(o.stops),
        tokens(t) {}

  void take(std::vector<Delta> deltas, std::vector<Delta>& out);
  void take_content(std::string_view text, std::vector<Delta>& out);
  void flush_held(std::vector<Delta>& out);
  void emit(std::string text, std::vector<Delta>& out);
  void note_content();
  void note_thought();
  CutIn open_channel() const;

  const text::Tokenizer& tokenizer;
  const bool plain, logprobs;
  text::ChannelParser parser;
  text::Utf8Stream utf8;  // of plain mode; else the parser has its own
  StopMatcher matcher;
  SpokenTokens tokens;
  std::string content;  // what has been let out
  std::size_t calls_begun = 0;
  std::size_t calls_ended = 0;  // before a stop string, if one matched
  std::size_t output_tokens = 0, reasoning_tokens = 0;
  std::size_t undecided_thought = 0;  // ids in the think channel that may yet turn out to be the marker that ends it
  CutIn cut = CutIn::nowhere;
  bool finished = false;
  std::string_view finish_reason;
  text::ParsedMessage message;
};

void Answer::State::emit(std::string text, std::vector<Delta>& out) {
  if (text.empty()) return;
  content += text;
  if (logprobs) tokens.shown(text);
  out.emplace_back(text::ContentDelta{std::move(text)});
}

void Answer::State::take_content(std::string_view text, std::vector<Delta>& out) { emit(matcher.push(text), out); }

void Answer::State::flush_held(std::vector<Delta>& out) { emit(matcher.flush(), out); }

void Answer::State::take(std::vector<Delta> deltas, std::vector<Delta>& out) {
  for (Delta& delta : deltas) {
    if (matcher.matched()) return;
    if (const auto* piece = std::get_if<text::ContentDelta>(&delta)) {
      take_content(piece->text, out);
      continue;
    }
    // Another channel speaks: the response's text is over, so what looked like the start of a stop string was not one.
    flush_held(out);
    if (std::holds_alternative<text::ToolCallBegin>(delta)) ++calls_begun;
    if (std::holds_alternative<text::ToolCallEnd>(delta)) ++calls_ended;
    out.push_back(std::move(delta));
  }
}

Answer::Answer(const text::Tokenizer& tokenizer, AnswerOptions options)
    : state_(std::make_shared<State>(tokenizer, std::move(options))) {}

// Which ids the parser has just made part of the answer.
void Answer::State::note_content() {
  for (const std::size_t at : parser.content_ids()) tokens.said(at);
  tokens.forget_before(parser.first_undecided());
}

// For an id that came while the think channel was open. Whether it was a thought is known when its marker, if it is part of one, is
// whole.
void Answer::State::note_thought() {
  ++undecided_thought;
  if (parser.in_header() || parser.first_undecided() < output_tokens) return;
  if (parser.in_reasoning()) reasoning_tokens += undecided_thought;
  undecided_thought = 0;
}

CutIn Answer::State::open_channel() const {
  if (parser.in_reasoning()) return CutIn::thinking;
  return parser.in_response() ? CutIn::response : CutIn::nowhere;
}

std::vector<Delta> Answer::push(text::TokenId id, std::shared_ptr<const TokenLogprobs> logprobs) {
  State& s = *state_;
  std::vector<Delta> out;
  if (s.finished || s.matcher.matched()) return out;
  const std::size_t at = s.output_tokens++;
  if (s.logprobs) s.tokens.arrived(id, std::move(logprobs));
  if (s.plain) {
    if (s.tokenizer.is_reserved(id)) return out;
    if (s.logprobs) s.tokens.said(at);
    s.take_content(s.utf8.push(s.tokenizer.bytes(id)), out);
    return out;
  }
  const bool thinking = s.parser.in_reasoning();
  auto deltas = s.parser.push(id);
  if (thinking) s.note_thought();
  if (s.logprobs) s.note_content();
  s.take(std::move(deltas), out);
  return out;
}

std::vector<Delta> Answer::finish(FinishReason reason) {
  State& s = *state_;
  std::vector<Delta> out;
  if (s.finished) return out;
  s.finished = true;
  if (!s.matcher.matched()) {
    if (s.plain) {
      // As in the channels: a cut inside a code point drops the piece of it.
      const std::string tail = s.utf8.finish();
      if (reason == FinishReason::stop) s.take_content(tail, out);
    } else {
      if (reason == FinishReason::length) s.cut = s.open_channel();
      if (s.parser.in_reasoning() && !s.parser.in_header()) s.reasoning_tokens += s.undecided_thought;
      auto deltas = s.parser.finish();
      if (s.logprobs) s.note_content();
      s.take(std::move(deltas), out);
    }
    if (!s.matcher.matched()) s.flush_held(out);
  }
  if (s.plain) {
    s.message.has_content = true;
  } else {
    s.message = s.parser.message();
    // The parser knows nothing of stop strings: what it saw after one is not part of the answer.
    if (s.matcher.matched() && s.message.tool_calls.size() > s.calls_ended) s.message.tool_calls.resize(s.calls_ended);
  }
  s.message.content = s.content;
  // In the middle of a call: whoever saw it begin must not take it, nor those before it, for all that was meant.
  if (reason == FinishReason::length && !s.matcher.matched() && s.calls_begun > s.calls_ended) s.cut = CutIn::call;
  if (!s.message.tool_calls.empty() && s.cut != CutIn::call) {
    s.finish_reason = "tool_calls";
  } else {
    s.finish_reason = s.matcher.matched() || reason == FinishReason::stop ? "stop" : "length";
  }
  return out;
}

std::vector<SpokenToken> Answer::spoken() { return state_->finished ? state_->tokens.take_last() : state_->tokens.take(); }
bool Answer::stopped() const { return state_->matcher.matched(); }
std::string_view Answer::stop_string() const { return state_->matcher.match(); }
std::string_view Answer::finish_reason() const { return state_->finish_reason; }
const text::ParsedMessage& Answer::message() const { return state_->message; }
CutIn Answer::cut_in() const { return state_->cut; }
bool Answer::thinking() const { return !state_->plain && state_->parser.in_reasoning(); }
std::size_t Answer::output_tokens() const { return state_->output_tokens; }
std::size_t Answer::reasoning_tokens() const { return state_->reasoning_tokens; }

}  // namespace k3::generation
