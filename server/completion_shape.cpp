// Chat and text completions as AnswerShape: the chunks of openai_shapes in their order.
#include "server/openai_shapes.hpp"
#include "server/sse.hpp"

namespace k3::server {
namespace {

class CompletionShape final : public AnswerShape {
 public:
  explicit CompletionShape(AnswerHead head) : head_(std::move(head)) { head_.id.insert(0, head_.chat ? "chatcmpl-" : "cmpl-"); }

  Frames opening(PingStyle style) override;
  Frames sign_of_life(PingStyle style, const ProgressReport* waiting) override;
  Frames progress(const ProgressReport& report) override;
  Frames more(std::span<const text::Delta> deltas, Spoken tokens) override;
  Frames end(const AnswerEnd& end) override;
  // Without [DONE] and without a finish reason nobody takes this for an answer.
  Frames failure(const ApiError& error) override { return {sse_data(error_json(error))}; }
  std::string whole(const AnswerEnd& end, Spoken tokens) override {
    return whole_answer(head_, end.message, tokens, end.reason, end.usage);
  }

 private:
  // The role comes first, once; text completions have none.
  void open_message(Frames& frames) {
    if (opened_ || !head_.chat) return;
    opened_ = true;
    frames.push_back(sse_data(role_chunk(head_)));
  }

  AnswerHead head_;
  bool opened_ = false;     // the role is out
  std::size_t offset_ = 0;  // characters of a text completion that are out
};

// Some clients and proxies count the time to the first byte of the body, not of the head.
Frames CompletionShape::opening(PingStyle style) {
  if (style == PingStyle::comment) return {sse_comment(ping_text(nullptr))};
  Frames frames;
  open_message(frames);
  if (!head_.chat && style == PingStyle::delta) frames.push_back(sse_data(empty_chunk(head_)));
  return frames;
}

Frames CompletionShape::sign_of_life(PingStyle style, const ProgressReport* waiting) {
  if (style == PingStyle::delta) return {sse_data(empty_chunk(head_))};
  return {sse_comment(ping_text(waiting))};
}

Frames CompletionShape::progress(const ProgressReport& report) {
  Frames frames;
  open_message(frames);
  frames.push_back(sse_data(progress_chunk(head_, report)));
  return frames;
}

Frames CompletionShape::more(std::span<const text::Delta> deltas, Spoken tokens) {
  Frames frames;
  for (const auto& delta : deltas) {
    std::optional<std::string> chunk;
    const auto* content = std::get_if<text::ContentDelta>(&delta);
    if (content != nullptr && !tokens.empty()) {
      chunk = content_chunk(head_, content->text, tokens, offset_);
      tokens = {};
    } else {
      chunk = delta_chunk(head_, delta);
    }
    if (!chunk) continue;
    open_message(frames);
    frames.push_back(sse_data(*chunk));
  }
  // A stop string has settled how much of a token belongs to text that is out already.
  if (!tokens.empty()) frames.push_back(sse_data(content_chunk(head_, "", tokens, offset_)));
  return frames;
}

Frames CompletionShape::end(const AnswerEnd& end) {
  Frames frames;
  open_message(frames);
  frames.push_back(sse_data(finish_chunk(head_, end.reason, end.usage)));
  if (head_.include_usage) frames.push_back(sse_data(usage_chunk(head_, end.usage)));
  frames.push_back(sse_data("[DONE]"));
  return frames;
}

}  // namespace

std::unique_ptr<AnswerShape> completion_shape(AnswerHead head) { return std::make_unique<CompletionShape>(std::move(head)); }

}  // namespace k3::server
