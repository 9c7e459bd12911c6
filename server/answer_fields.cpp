// The parameters shared by chat and text completions.
#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "server/answer_run.hpp"
#include "server/sampling_contract.hpp"
#include "server/sampling_fields.hpp"

namespace k3::server {
namespace {

constexpr std::int64_t kInt64Max = std::numeric_limits<std::int64_t>::max();

void read_stream(Fields& fields, const BodyContext& context, AnswerPlan& plan) {
  plan.stream = fields.boolean("stream", false);
  plan.progress = fields.boolean("return_progress", false);
  if (const json::Value* options = fields.object("stream_options")) {
    Fields nested(*options, "stream_options.");
    plan.include_usage = nested.boolean("include_usage", false);
    fields.adopt(nested);
  }
  plan.ping_style = context.options.ping_style;
  if (const std::string wish = fields.string("sse_ping_style", {}); !wish.empty()) {
    const auto style = ping_style(wish);
    if (!style) fields.refuse("sse_ping_style", "sse_ping_style must be comment, delta or off");
    plan.ping_style = style.value_or(plan.ping_style);
  }
  plan.ping_interval = context.options.ping_interval;
  if (fields.find("sse_ping_interval") != nullptr) {
    // In seconds; zero and below turn pings off.
    const double seconds = fields.number("sse_ping_interval", 0, -1, 3600);
    plan.ping_interval = std::chrono::milliseconds(static_cast<std::int64_t>(std::max(seconds, 0.0) * 1000));
  }
}

// A wish that cannot be met is refused rather than forgotten.
void refuse_unserved(Fields& fields) {
  if (fields.integer("n", 1, kInt64Max).value_or(1) != 1) fields.refuse("n", "only n = 1 is served", "unsupported_value");
}

// Chats say whether, and beside it how many rivals; text completions say how many.
void read_logprobs(Fields& fields, const Limits& limits, AnswerPlan& plan) {
  const auto most = static_cast<std::int64_t>(limits.top_logprobs);
  const json::Value* value = fields.find("logprobs");
  const bool off = value == nullptr || (value->is_bool() && !value->boolean);
  std::optional<std::int64_t> count;
  if (!plan.chat) {
    if (!off) count = fields.integer("logprobs", 0, most);
    if (fields.find("top_logprobs") != nullptr)
      fields.refuse("top_logprobs", "top_logprobs is for chats: here logprobs is a number");
  } else {
    const bool wanted = fields.boolean("logprobs", false);
    count = fields.integer("top_logprobs", 0, most);
    if (!wanted && count.value_or(0) > 0) fields.refuse("top_logprobs", "top_logprobs needs logprobs to be true");
    count = wanted ? std::optional(count.value_or(0)) : std::nullopt;
  }
  plan.answer.logprobs = count.has_value();
  if (count) plan.job.logprobs = static_cast<unsigned>(*count);
}

constexpr std::string_view kRead[] = {"model",
                                      "n",
                                      "temperature",
                                      "top_p",
                                      "top_k",
                                      "min_p",
                                      "repetition_penalty",
                                      "repeat_penalty",
                                      "presence_penalty",
                                      "frequency_penalty",
                                      "seed",
                                      "logit_bias",
                                      "stop",
                                      "stream",
                                      "stream_options",
                                      "return_progress",
                                      "sse_ping_style",
                                      "sse_ping_interval",
                                      "logprobs",
                                      "top_logprobs",
                                      "max_tokens",
                                      "max_completion_tokens"};
constexpr std::string_view kReadOfChats[] = {
    "messages",         "tools",    "tool_choice",          "parallel_tool_calls", "response_format",
    "reasoning_effort", "thinking", "chat_template_kwargs", "reasoning_budget",    "thinking_token_budget"};
constexpr std::string_view kReadOfTexts[] = {"prompt", "special", "echo", "suffix", "best_of"};

template <class Names>
bool among(const Names& names, std::string_view name) {
  return std::find(std::begin(names), std::end(names), name) != std::end(names);
}

// Fields without a meaning here are no error, since clients send many, but nobody should have to guess whether one had an effect.
std::vector<std::string> ignored_fields(const Fields& fields, bool chat) {
  std::vector<std::string> names;
  for (const auto& [name, value] : fields.members()) {
    const bool read = among(kRead, name) || (chat ? among(kReadOfChats, name) : among(kReadOfTexts, name));
    if (!read && !value.is_null() && !among(names, name)) names.push_back(name);
  }
  return names;
}

}  // namespace

void read_answer_fields(Fields& fields, const BodyContext& context, AnswerPlan& plan) {
  // Any name is taken: many programs send one they have built in, and there is only one model here. The answer names that one.
  static_cast<void>(fields.string("model", {}));
  refuse_unserved(fields);
  plan.job.sampling = plan.chat ? chat_sampling(context.options) : context.options.sampling;
  plan.job.sampling.seed = context.seed;
  read_sampling(fields, plan.job.sampling);
  read_logit_bias(fields, context.options.limits, context.tokenizer->vocabulary_size(), plan.job.sampling);
  read_stops(fields, context.options.limits, plan.answer.stops);
  read_stream(fields, context, plan);
  read_logprobs(fields, context.options.limits, plan);
  plan.ignored = ignored_fields(fields, plan.chat);
  plan.max_tokens = read_max_tokens(fields);
  if (plan.chat) plan.job.form.thinking_budget = read_thinking_budget(fields);
  const auto& control = context.tokenizer->control();
  plan.job.stop_ids = {control.end_of_message, control.end_of_sequence};
}

std::optional<ApiError> fit_context(AnswerPlan& plan, const ModelInfo& info) {
  const std::size_t prompt = plan.job.prompt.size();
  plan.prompt_tokens = prompt;
  if (prompt >= info.context_limit) {
    const std::string what = plan.chat ? "messages" : "prompt";
    // Agents look for this wording to know that they must shorten the conversation.
    return ApiError{
        .status = 400,
        .message = fmt::format("This model's maximum context length is {} tokens. However, your {} resulted in {} tokens. "
                               "Please reduce the length of the {}.",
                               info.context_limit, what, prompt, what),
        .param = what,
        .code = "context_length_exceeded",
        .details = {{"n_ctx", static_cast<std::int64_t>(info.context_limit)},
                    {"n_prompt_tokens", static_cast<std::int64_t>(prompt)}}};
  }
  const std::size_t left = info.context_limit - prompt;
  if (plan.max_tokens && *plan.max_tokens > left) {
    plan.warnings.push_back(fmt::format("max_tokens was lowered to {}, what the context leaves", left));
  }
  plan.job.max_tokens = std::min(plan.max_tokens.value_or(left), left);
  return std::nullopt;
}

}  // namespace k3::server
