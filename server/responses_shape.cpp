// An answer in the Responses protocol.
#include <fmt/format.h>

#include "server/answer_blocks.hpp"
#include "server/openai_shapes.hpp"
#include "server/responses_request.hpp"
#include "server/sse.hpp"

namespace k3::server {
namespace {

using json::Writer;

void write_count(Writer& writer, std::string_view name, std::size_t value) {
  writer.key(name).integer(static_cast<std::int64_t>(value));
}

void write_usage(Writer& writer, const Usage& usage) {
  writer.begin_object();
  write_count(writer, "input_tokens", usage.prompt);
  writer.key("input_tokens_details").begin_object();
  write_count(writer, "cached_tokens", usage.cached);
  writer.end_object();
  write_count(writer, "output_tokens", usage.completion);
  writer.key("output_tokens_details").begin_object();
  write_count(writer, "reasoning_tokens", usage.reasoning);
  writer.end_object();
  write_count(writer, "total_tokens", usage.prompt + usage.completion);
  writer.end_object();
}

// Of the few codes that the protocol has, the nearest; the message says it all.
void write_error(Writer& writer, const ApiError& error) {
  writer.begin_object().key("code").string(error.status == 429 ? "rate_limit_exceeded" : "server_error");
  writer.key("message").string(error.message);
  for (const auto& [name, value] : error.headers) {
    if (name == "x-should-retry") writer.key("should_retry").boolean(value == "true");
  }
  writer.end_object();
}

void write_part(Writer& writer, const Block& block, std::string_view text) {
  const bool thinking = block.kind == BlockKind::thinking;
  writer.begin_object().key("type").string(thinking ? "reasoning_text" : "output_text").key("text").string(text);
  if (!thinking) writer.key("annotations").begin_array().end_array().key("logprobs").begin_array().end_array();
  writer.end_object();
}

// How an answer stands: while it goes on, and at its end.
struct Standing {
  std::string_view status = "in_progress";
  std::vector<Block> blocks{};
  const Usage* usage = nullptr;
  const ApiError* error = nullptr;
  bool cut = false;  // the last block is not all that was to be thought or said
};

bool is_cut(const AnswerEnd& end, const std::vector<Block>& blocks) {
  const BlockKind last = blocks.empty() ? BlockKind::call : blocks.back().kind;
  return (end.cut == generation::CutIn::thinking && last == BlockKind::thinking) ||
         (end.cut == generation::CutIn::response && last == BlockKind::text);
}

class ResponsesShape final : public AnswerShape, private BlockListener {
 public:
  ResponsesShape(AnswerHead head, std::shared_ptr<const ResponseEcho> echo) : head_(std::move(head)), echo_(std::move(echo)) {}

  Frames opening(PingStyle style) override;
  Frames sign_of_life(PingStyle style, const ProgressReport* waiting) override;
  Frames progress(const ProgressReport& report) override;
  Frames more(std::span<const text::Delta> deltas, Spoken tokens) override;
  Frames end(const AnswerEnd& end) override;
  Frames failure(const ApiError& error) override;
  std::string whole(const AnswerEnd& end, Spoken tokens) override;

 private:
  void begun(std::size_t index, const Block& block) override;
  void grown(std::size_t index, const Block& block, std::string_view more) override;
  void ended(std::size_t index, const Block& block) override;
  template <class Fill>
  void event(std::string_view type, Fill&& fill);
  void response_event(std::string_view type, const Standing& standing);
  void text_event(std::string_view type, std::size_t index, const Block& block, std::string_view field, std::string_view text);
  void part_event(std::string_view type, std::size_t index, const Block& block, std::string_view text);
  void item_event(std::string_view type, std::size_t index, const Block& block, std::string_view status);
  void write_response(Writer& writer, const Standing& standing) const;
  void write_item(Writer& writer, std::size_t index, const Block& block, std::string_view status) const;
  std::string item_id(std::size_t index, const Block& block) const;
  static Standing at_end(const AnswerEnd& end, std::vector<Block> blocks);

  AnswerHead head_;
  std::shared_ptr<const ResponseEcho> echo_;
  Frames frames_;
  std::size_t sequence_ = 0;
  bool cut_ = false;  // the block that ends the answer
  AnswerBlocks blocks_{*this};
};

std::string ResponsesShape::item_id(std::size_t index, const Block& block) const {
  const std::string_view kind = block.kind == BlockKind::thinking ? "rs" : block.kind == BlockKind::text ? "msg" : "fc";
  return fmt::format("{}_{}_{}", kind, head_.id, index);
}

// An item that has just begun is empty.
void ResponsesShape::write_item(Writer& writer, std::size_t index, const Block& block, std::string_view status) const {
  const bool done = status != "in_progress";
  writer.begin_object().key("id").string(item_id(index, block)).key("type");
  if (block.kind == BlockKind::thinking) {
    writer.string("reasoning").key("status").string(status).key("summary").begin_array().end_array();
    if (done && echo_->encrypted_content) writer.key("encrypted_content").string(std::string(kOwnThinking) + block.text);
  } else if (block.kind == BlockKind::text) {
    writer.string("message").key("status").string(status).key("role").string("assistant");
  } else {
    writer.string("function_call").key("status").string(status).key("call_id").string(block.id).key("name").string(block.name);
    writer.key("arguments").string(done ? std::string_view(block.text) : std::string_view());
  }
  if (block.kind != BlockKind::call) {
    writer.key("content").begin_array();
    if (done) write_part(writer, block, block.text);
    writer.end_array();
  }
  writer.end_object();
}

void ResponsesShape::write_response(Writer& writer, const Standing& standing) const {
  writer.begin_object().key("id").string("resp_" + head_.id).key("object").string("response");
  writer.key("created_at").integer(head_.created).key("status").string(standing.status).key("background").boolean(false);
  writer.key("error");
  if (standing.error != nullptr) {
    write_error(writer, *standing.error);
  } else {
    writer.null();
  }
  writer.key("incomplete_details");
  if (standing.status == "incomplete") {
    writer.begin_object().key("reason").string("max_output_tokens").end_object();
  } else {
    writer.null();
  }
  writer.key("model").string(head_.model).key("output").begin_array();
  for (std::size_t i = 0; i < standing.blocks.size(); ++i) {
    const bool cut = standing.cut && i + 1 == standing.blocks.size();
    if (standing.blocks[i].complete) write_item(writer, i, standing.blocks[i], cut ? "incomplete" : "completed");
  }
  writer.end_array();
  for (const auto& [name, value] : echo_->fields.members) writer.key(name).value(value);
  writer.key("previous_response_id").null().key("store").boolean(false).key("truncation").string("disabled").key("usage");
  if (standing.usage != nullptr) {
    write_usage(writer, *standing.usage);
    write_timings(writer, *standing.usage);
  } else {
    writer.null();
  }
  writer.end_object();
}

template <class Fill>
void ResponsesShape::event(std::string_view type, Fill&& fill) {
  std::string text;
  Writer writer(text);
  writer.begin_object().key("type").string(type);
  write_count(writer, "sequence_number", sequence_++);
  fill(writer);
  writer.end_object();
  frames_.push_back(sse_event(type, text));
}

void ResponsesShape::response_event(std::string_view type, const Standing& standing) {
  event(type, [&](Writer& writer) {
    writer.key("response");
    write_response(writer, standing);
  });
}

// Clients begin with these two: whatever comes before them is a comment.
Frames ResponsesShape::opening(PingStyle) {
  response_event("response.created", {});
  response_event("response.in_progress", {});
  return std::exchange(frames_, {});
}

// There is no event without a meaning here. What grows may grow by nothing, and that the response is in progress can be said again;
// clients then take its output for all there is so far.
Frames ResponsesShape::sign_of_life(PingStyle style, const ProgressReport* waiting) {
  if (style != PingStyle::delta) return {sse_comment(ping_text(waiting))};
  if (const Block* open = blocks_.open()) {
    grown(blocks_.all().size() - 1, *open, "");
  } else {
    response_event("response.in_progress", {.blocks = blocks_.all()});
  }
  return std::exchange(frames_, {});
}

Frames ResponsesShape::progress(const ProgressReport& report) {
  event("response.in_progress", [&](Writer& writer) {
    writer.key("response");
    write_response(writer, {});
    write_progress(writer, report);
  });
  return std::exchange(frames_, {});
}

Frames ResponsesShape::more(std::span<const text::Delta> deltas, Spoken) {
  for (const auto& delta : deltas) blocks_.take(delta);
  return std::exchange(frames_, {});
}

void ResponsesShape::item_event(std::string_view type, std::size_t index, const Block& block, std::string_view status) {
  event(type, [&](Writer& writer) {
    write_count(writer, "output_index", index);
    writer.key("item");
    write_item(writer, index, block, status);
  });
}

void ResponsesShape::part_event(std::string_view type, std::size_t index, const Block& block, std::string_view text) {
  event(type, [&](Writer& writer) {
    writer.key("item_id").string(item_id(index, block));
    write_count(writer, "output_index", index);
    write_count(writer, "content_index", 0);
    writer.key("part");
    write_part(writer, block, text);
  });
}

void ResponsesShape::text_event(std::string_view type, std::size_t index, const Block& block, std::string_view field,
                                std::string_view text) {
  const std::string_view of = block.kind == BlockKind::thinking ? "reasoning_text"
                              : block.kind == BlockKind::text   ? "output_text"
                                                                : "function_call_arguments";
  event(fmt::format("response.{}.{}", of, type), [&](Writer& writer) {
    writer.key("item_id").string(item_id(index, block));
    write_count(writer, "output_index", index);
    if (block.kind != BlockKind::call) write_count(writer, "content_index", 0);
    writer.key(field).string(text);
    if (block.kind == BlockKind::text) writer.key("logprobs").begin_array().end_array();
    if (block.kind == BlockKind::call && type == "done") writer.key("name").string(block.name);
  });
}

void ResponsesShape::begun(std::size_t index, const Block& block) {
  item_event("response.output_item.added", index, block, "in_progress");
  if (block.kind != BlockKind::call) part_event("response.content_part.added", index, block, "");
}

void ResponsesShape::grown(std::size_t index, const Block& block, std::string_view more) {
  text_event("delta", index, block, "delta", more);
}

// A call that was cut short has no arguments that anybody should read.
void ResponsesShape::ended(std::size_t index, const Block& block) {
  if (block.complete) text_event("done", index, block, block.kind == BlockKind::call ? "arguments" : "text", block.text);
  if (block.kind != BlockKind::call) part_event("response.content_part.done", index, block, block.text);
  item_event("response.output_item.done", index, block, block.complete && !cut_ ? "completed" : "incomplete");
}

Standing ResponsesShape::at_end(const AnswerEnd& end, std::vector<Block> blocks) {
  const bool cut = is_cut(end, blocks);
  return {
      .status = end.reason == "length" ? "incomplete" : "completed", .blocks = std::move(blocks), .usage = &end.usage, .cut = cut};
}

Frames ResponsesShape::end(const AnswerEnd& end) {
  cut_ = is_cut(end, blocks_.all());
  blocks_.close();
  const Standing standing = at_end(end, blocks_.all());
  response_event(fmt::format("response.{}", standing.status), standing);
  return std::exchange(frames_, {});
}

Frames ResponsesShape::failure(const ApiError& error) {
  response_event("response.failed", {.status = "failed", .blocks = blocks_.all(), .error = &error});
  return std::exchange(frames_, {});
}

std::string ResponsesShape::whole(const AnswerEnd& end, Spoken) {
  std::string text;
  Writer writer(text);
  write_response(writer, at_end(end, blocks_of(end.message)));
  return text;
}

}  // namespace

ShapeMaker responses_shape(ResponseEcho echo) {
  return [kept = std::make_shared<const ResponseEcho>(std::move(echo))](AnswerHead head) {
    return std::make_unique<ResponsesShape>(std::move(head), kept);
  };
}

}  // namespace k3::server
