// An answer in the Messages protocol.
#include "server/answer_blocks.hpp"
#include "server/messages_request.hpp"
#include "server/openai_shapes.hpp"
#include "server/sse.hpp"

namespace k3::server {
namespace {

using json::Writer;

// Thinking comes with a signature that clients send back unread. Nothing is proved by it here: thinking is read as it comes back.
// Where its text is omitted, the signature is what brings it back.
constexpr std::string_view kSignature = "azMtdGhpbmtpbmc=";

std::string signature_of(const Block& block, bool omitted) {
  return omitted ? std::string(kOwnThinking) + block.text : std::string(kSignature);
}

std::string_view stop_reason(const AnswerEnd& end) {
  if (end.reason == "tool_calls") return "tool_use";
  if (end.reason == "length") return "max_tokens";
  return end.stop_string.empty() ? "end_turn" : "stop_sequence";
}

// `begin` fills in what an event has beside its type.
template <class Fill>
std::string event(std::string_view type, Fill&& fill) {
  std::string text;
  Writer writer(text);
  writer.begin_object().key("type").string(type);
  fill(writer);
  writer.end_object();
  return sse_event(type, text);
}

void write_count(Writer& writer, std::string_view name, std::size_t value) {
  writer.key(name).integer(static_cast<std::int64_t>(value));
}

// Here the prompt is told in two parts: what was computed for this answer, and what had been before.
void write_usage(Writer& writer, const Usage& usage) {
  writer.key("usage").begin_object();
  write_count(writer, "input_tokens", usage.prompt - usage.cached);
  write_count(writer, "cache_creation_input_tokens", 0);
  write_count(writer, "cache_read_input_tokens", usage.cached);
  write_count(writer, "output_tokens", usage.completion);
  writer.end_object();
}

// `end`: null while the answer goes on.
void write_stop(Writer& writer, const AnswerEnd* end) {
  const std::string_view reason = end == nullptr ? std::string_view() : stop_reason(*end);
  writer.key("stop_reason");
  if (reason.empty()) {
    writer.null();
  } else {
    writer.string(reason);
  }
  writer.key("stop_sequence");
  if (reason == "stop_sequence") {
    writer.string(end->stop_string);
  } else {
    writer.null();
  }
}

// A block as a stream begins it, with nothing in it yet, or whole.
void write_block(Writer& writer, const Block& block, bool whole, bool omit_thinking) {
  const bool shown = whole && !(omit_thinking && block.kind == BlockKind::thinking);
  const std::string_view text = shown ? std::string_view(block.text) : std::string_view();
  writer.begin_object();
  if (block.kind == BlockKind::thinking) {
    writer.key("type").string("thinking").key("thinking").string(text).key("signature");
    writer.string(whole ? signature_of(block, omit_thinking) : std::string());
  } else if (block.kind == BlockKind::text) {
    writer.key("type").string("text").key("text").string(text);
  } else {
    writer.key("type").string("tool_use").key("id").string(block.id).key("name").string(block.name);
    writer.key("input").raw(text.empty() ? "{}" : text);
  }
  writer.end_object();
}

class MessagesShape final : public AnswerShape, private BlockListener {
 public:
  MessagesShape(AnswerHead head, bool omit_thinking) : head_(std::move(head)), omit_thinking_(omit_thinking) {
    head_.id.insert(0, "msg_");
  }

  // At once, because a ping may come only after it.
  Frames opening(PingStyle) override;
  Frames sign_of_life(PingStyle, const ProgressReport*) override {
    return {event("ping", [](Writer&) {})};
  }
  Frames progress(const ProgressReport& report) override;
  Frames more(std::span<const text::Delta> deltas, Spoken tokens) override;
  Frames end(const AnswerEnd& end) override;
  Frames failure(const ApiError& error) override { return {sse_event("error", messages_error_json(error, head_.request))}; }
  std::string whole(const AnswerEnd& end, Spoken tokens) override;

 private:
  void begun(std::size_t index, const Block& block) override;
  void grown(std::size_t index, const Block& block, std::string_view more) override;
  void ended(std::size_t index, const Block& block) override;
  void delta(std::size_t index, std::string_view type, std::string_view field, std::string_view text);
  void write_head(Writer& writer) const {
    writer.key("id").string(head_.id).key("type").string("message").key("role").string("assistant");
    writer.key("model").string(head_.model);
  }

  AnswerHead head_;
  const bool omit_thinking_;
  Frames frames_;
  AnswerBlocks blocks_{*this};
};

Frames MessagesShape::opening(PingStyle) {
  return {event("message_start", [this](Writer& writer) {
    writer.key("message").begin_object();
    write_head(writer);
    writer.key("content").begin_array().end_array();
    write_stop(writer, nullptr);
    write_usage(writer, {.prompt = head_.prompt_tokens, .timings = {}});
    writer.end_object();
  })};
}

// A ping that says more: clients look at its name alone.
Frames MessagesShape::progress(const ProgressReport& report) {
  return {event("ping", [&report](Writer& writer) { write_progress(writer, report); })};
}

Frames MessagesShape::more(std::span<const text::Delta> deltas, Spoken) {
  for (const auto& delta : deltas) blocks_.take(delta);
  return std::exchange(frames_, {});
}

void MessagesShape::begun(std::size_t index, const Block& block) {
  frames_.push_back(event("content_block_start", [&](Writer& writer) {
    write_count(writer, "index", index);
    writer.key("content_block");
    write_block(writer, block, false, omit_thinking_);
  }));
}

void MessagesShape::delta(std::size_t index, std::string_view type, std::string_view field, std::string_view text) {
  frames_.push_back(event("content_block_delta", [&](Writer& writer) {
    write_count(writer, "index", index);
    writer.key("delta").begin_object().key("type").string(type).key(field).string(text).end_object();
  }));
}

void MessagesShape::grown(std::size_t index, const Block& block, std::string_view more) {
  if (block.kind == BlockKind::thinking) {
    if (!omit_thinking_) delta(index, "thinking_delta", "thinking", more);
    return;
  }
  if (block.kind == BlockKind::text) return delta(index, "text_delta", "text", more);
  delta(index, "input_json_delta", "partial_json", more);
}

void MessagesShape::ended(std::size_t index, const Block& block) {
  if (block.kind == BlockKind::thinking) delta(index, "signature_delta", "signature", signature_of(block, omit_thinking_));
  frames_.push_back(event("content_block_stop", [&](Writer& writer) { write_count(writer, "index", index); }));
}

Frames MessagesShape::end(const AnswerEnd& end) {
  blocks_.close();
  frames_.push_back(event("message_delta", [&end](Writer& writer) {
    writer.key("delta").begin_object();
    write_stop(writer, &end);
    writer.end_object();
    write_usage(writer, end.usage);
    write_timings(writer, end.usage);
  }));
  frames_.push_back(event("message_stop", [](Writer&) {}));
  return std::exchange(frames_, {});
}

std::string MessagesShape::whole(const AnswerEnd& end, Spoken) {
  std::string text;
  Writer writer(text);
  writer.begin_object();
  write_head(writer);
  writer.key("content").begin_array();
  for (const auto& block : blocks_of(end.message)) write_block(writer, block, true, omit_thinking_);
  writer.end_array();
  write_stop(writer, &end);
  write_usage(writer, end.usage);
  write_timings(writer, end.usage);
  writer.end_object();
  return text;
}

}  // namespace

ShapeMaker messages_shape(bool omit_thinking) {
  return [omit_thinking](AnswerHead head) { return std::make_unique<MessagesShape>(std::move(head), omit_thinking); };
}

}  // namespace k3::server
