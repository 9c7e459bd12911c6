#include "server/openai_shapes.hpp"

#include <algorithm>
#include <cmath>

#include "model/text/json.hpp"

namespace k3::server {
namespace {

using json::Writer;

void write_head(Writer& writer, const AnswerHead& head, bool chunk) {
  writer.begin_object();
  writer.key("id").string(head.id);
  // Text completions have one name for both forms.
  writer.key("object").string(!head.chat ? "text_completion" : chunk ? "chat.completion.chunk" : "chat.completion");
  writer.key("created").integer(head.created);
  writer.key("model").string(head.model);
  writer.key("system_fingerprint").string(head.fingerprint);
}

void write_usage(Writer& writer, const Usage& usage) {
  writer.key("usage").begin_object();
  writer.key("prompt_tokens").integer(static_cast<std::int64_t>(usage.prompt));
  writer.key("completion_tokens").integer(static_cast<std::int64_t>(usage.completion));
  writer.key("total_tokens").integer(static_cast<std::int64_t>(usage.prompt + usage.completion));
  writer.key("prompt_tokens_details").begin_object();
  writer.key("cached_tokens").integer(static_cast<std::int64_t>(usage.cached)).end_object();
  writer.key("completion_tokens_details").begin_object();
  writer.key("reasoning_tokens").integer(static_cast<std::int64_t>(usage.reasoning)).end_object();
  writer.end_object();
}

double share(double whole, std::size_t count) { return count > 0 ? whole / static_cast<double>(count) : 0.0; }

// The seconds of one stage and what it took from the drive, in all and for each of the `stepped` tokens that it put through the
// model.
void write_stage(Writer& writer, std::string_view stage, std::size_t count, double seconds, const DriveUse& drive,
                 std::size_t stepped) {
  const std::string name(stage);
  const auto bytes = static_cast<double>(drive.bytes());
  writer.key(name + "_n").integer(static_cast<std::int64_t>(count));
  writer.key(name + "_ms").number(seconds * 1000);
  writer.key(name + "_per_second").number(seconds > 0 ? static_cast<double>(count) / seconds : 0.0);
  writer.key(name + "_read_bytes").integer(static_cast<std::int64_t>(drive.bytes()));
  writer.key(name + "_read_bytes_per_token").number(share(bytes, stepped));
  writer.key(name + "_expert_hit_rate").number(drive.expert_hit_rate());
  writer.key(name + "_expert_wait_ms").number(drive.expert_wait_s * 1000);
  writer.key(name + "_trunk_wait_ms").number(drive.trunk_wait_s * 1000);
}

// {"index":0, "delta":{ or "text":"..." — the caller fills it in and calls end_choice.
void begin_choice(Writer& writer) { writer.key("choices").begin_array().begin_object().key("index").integer(0); }

// `usage`: null where the choice does not tell it.
void end_choice(Writer& writer, std::string_view reason, const Usage* usage = nullptr) {
  writer.key("finish_reason");
  if (reason.empty()) {
    writer.null();
  } else {
    writer.string(reason);
  }
  if (usage != nullptr) write_usage(writer, *usage);
  writer.end_object().end_array();
}

// A chunk whose delta, or text, is empty.
void empty_choice(Writer& writer, const AnswerHead& head, std::string_view reason, const Usage* usage = nullptr) {
  begin_choice(writer);
  if (head.chat) {
    writer.key("delta").begin_object().end_object();
  } else {
    writer.key("text").string("").key("logprobs").null();
  }
  end_choice(writer, reason, usage);
}

void write_call_begin(Writer& writer, std::size_t index, std::string_view id, std::string_view name) {
  writer.key("tool_calls").begin_array().begin_object();
  writer.key("index").integer(static_cast<std::int64_t>(index)).key("id").string(id).key("type").string("function");
  writer.key("function").begin_object().key("name").string(name).key("arguments").string("").end_object();
  writer.end_object().end_array();
}

void write_call_arguments(Writer& writer, std::size_t index, std::string_view arguments) {
  writer.key("tool_calls").begin_array().begin_object();
  writer.key("index").integer(static_cast<std::int64_t>(index));
  writer.key("function").begin_object().key("arguments").string(arguments).end_object();
  writer.end_object().end_array();
}

void write_delta(Writer& writer, const text::Delta& delta) {
  writer.key("delta").begin_object();
  if (const auto* reasoning = std::get_if<text::ReasoningDelta>(&delta)) writer.key("reasoning_content").string(reasoning->text);
  if (const auto* content = std::get_if<text::ContentDelta>(&delta)) writer.key("content").string(content->text);
  if (const auto* begin = std::get_if<text::ToolCallBegin>(&delta)) write_call_begin(writer, begin->index, begin->id, begin->name);
  if (const auto* more = std::get_if<text::ToolCallArguments>(&delta)) write_call_arguments(writer, more->index, more->json);
  writer.end_object();
}

void write_message(Writer& writer, const text::ParsedMessage& message) {
  writer.key("message").begin_object().key("role").string("assistant").key("content").string(message.content);
  if (message.has_reasoning) writer.key("reasoning_content").string(message.reasoning);
  if (!message.tool_calls.empty()) {
    writer.key("tool_calls").begin_array();
    for (const auto& call : message.tool_calls) {
      writer.begin_object().key("id").string(call.id).key("type").string("function");
      writer.key("function").begin_object().key("name").string(call.name).key("arguments").string(call.arguments).end_object();
      writer.end_object();
    }
    writer.end_array();
  }
  writer.end_object();
}

void write_logprobs(Writer& writer, const AnswerHead& head, Spoken tokens, std::size_t& offset) {
  writer.key("logprobs");
  if (head.tokenizer == nullptr) {
    writer.null();
  } else if (head.chat) {
    write_chat_logprobs(writer, *head.tokenizer, tokens);
  } else {
    write_text_logprobs(writer, *head.tokenizer, tokens, offset);
  }
}

void write_model(Writer& writer, const ModelInfo& info, std::int64_t created) {
  writer.begin_object().key("id").string(info.id).key("object").string("model").key("created").integer(created);
  writer.key("owned_by").string("k3");
  // Both spellings of the same number that clients look for.
  writer.key("context_length").integer(static_cast<std::int64_t>(info.context_limit));
  writer.key("max_model_len").integer(static_cast<std::int64_t>(info.context_limit));
  writer.end_object();
}

}  // namespace

// llama.cpp's names, which user interfaces already know; queued_ms and what is about the drive are ours.
void write_timings(Writer& writer, const Usage& usage) {
  const Timings& timings = usage.timings;
  const std::size_t computed = usage.prompt - std::min(usage.cached, usage.prompt);
  writer.key("timings").begin_object();
  writer.key("queued_ms").number(timings.queued_s * 1000);
  writer.key("cache_n").integer(static_cast<std::int64_t>(usage.cached));
  // The last token of an answer is written and not read.
  const std::size_t stepped = usage.completion - std::min<std::size_t>(usage.completion, 1);
  write_stage(writer, "prompt", computed, timings.prefill_s, timings.prefill, computed);
  write_stage(writer, "predicted", usage.completion, timings.decode_s, timings.decode, stepped);
  const auto bytes = timings.prefill.bytes() + timings.decode.bytes();
  writer.key("read_bytes").integer(static_cast<std::int64_t>(bytes));
  writer.key("read_bytes_per_token").number(share(static_cast<double>(bytes), computed + stepped));
  writer.end_object();
}

void write_progress(Writer& writer, const ProgressReport& report) {
  const Prefill& prefill = report.prefill;
  writer.key("prompt_progress").begin_object();
  writer.key("total").integer(static_cast<std::int64_t>(prefill.total));
  writer.key("cache").integer(static_cast<std::int64_t>(prefill.cached));
  writer.key("processed").integer(static_cast<std::int64_t>(prefill.done));
  writer.key("time_ms").integer(report.milliseconds);
  writer.end_object();
  if (report.position) {
    writer.key("queue").begin_object().key("position").integer(static_cast<std::int64_t>(*report.position));
    if (report.turn_in_s) writer.key("turn_in_ms").integer(std::llround(*report.turn_in_s * 1000));
    writer.end_object();
  }
}

std::string role_chunk(const AnswerHead& head) {
  std::string text;
  Writer writer(text);
  write_head(writer, head, true);
  begin_choice(writer);
  writer.key("delta").begin_object().key("role").string("assistant").key("content").string("").end_object();
  end_choice(writer, {});
  writer.end_object();
  return text;
}

std::string empty_chunk(const AnswerHead& head) {
  std::string text;
  Writer writer(text);
  write_head(writer, head, true);
  empty_choice(writer, head, {});
  writer.end_object();
  return text;
}

std::optional<std::string> delta_chunk(const AnswerHead& head, const text::Delta& delta) {
  if (std::holds_alternative<text::ToolCallEnd>(delta)) return std::nullopt;
  const auto* content = std::get_if<text::ContentDelta>(&delta);
  if (!head.chat && content == nullptr) return std::nullopt;
  std::string text;
  Writer writer(text);
  write_head(writer, head, true);
  begin_choice(writer);
  if (head.chat) {
    write_delta(writer, delta);
  } else {
    writer.key("text").string(content->text).key("logprobs").null();
  }
  end_choice(writer, {});
  writer.end_object();
  return text;
}

std::string content_chunk(const AnswerHead& head, std::string_view content, Spoken tokens, std::size_t& offset) {
  std::string text;
  Writer writer(text);
  write_head(writer, head, true);
  begin_choice(writer);
  if (head.chat) {
    writer.key("delta").begin_object().key("content").string(content).end_object();
  } else {
    writer.key("text").string(content);
  }
  write_logprobs(writer, head, tokens, offset);
  end_choice(writer, {});
  writer.end_object();
  return text;
}

std::string progress_chunk(const AnswerHead& head, const ProgressReport& report) {
  std::string text;
  Writer writer(text);
  write_head(writer, head, true);
  writer.key("choices").begin_array().end_array();
  write_progress(writer, report);
  writer.end_object();
  return text;
}

std::string finish_chunk(const AnswerHead& head, std::string_view reason, const Usage& usage) {
  std::string text;
  Writer writer(text);
  write_head(writer, head, true);
  empty_choice(writer, head, reason, head.choice_usage ? &usage : nullptr);
  write_timings(writer, usage);
  writer.end_object();
  return text;
}

std::string usage_chunk(const AnswerHead& head, const Usage& usage) {
  std::string text;
  Writer writer(text);
  write_head(writer, head, true);
  writer.key("choices").begin_array().end_array();
  write_usage(writer, usage);
  writer.end_object();
  return text;
}

std::string whole_answer(const AnswerHead& head, const text::ParsedMessage& message, Spoken tokens, std::string_view reason,
                         const Usage& usage) {
  std::string text;
  Writer writer(text);
  write_head(writer, head, false);
  begin_choice(writer);
  if (head.chat) {
    write_message(writer, message);
  } else {
    writer.key("text").string(message.content);
  }
  std::size_t offset = 0;
  write_logprobs(writer, head, tokens, offset);
  end_choice(writer, reason);
  write_usage(writer, usage);
  write_timings(writer, usage);
  writer.end_object();
  return text;
}

std::string model_object(const ModelInfo& info, std::int64_t created) {
  std::string text;
  Writer writer(text);
  write_model(writer, info, created);
  return text;
}

std::string model_list(const ModelInfo& info, std::int64_t created) {
  std::string text;
  Writer writer(text);
  writer.begin_object().key("object").string("list").key("data").begin_array();
  write_model(writer, info, created);
  writer.end_array().end_object();
  return text;
}

}  // namespace k3::server
