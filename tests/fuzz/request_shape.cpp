// Requests grown from the fuzzer's bytes instead of found among all bytes: the fields that exist, each with a value of its own kind
// or of any other, in conversations and tools of any shape. Whatever they say, the answer is a plan or an error of the client's.
#include <fuzzer/FuzzedDataProvider.h>

#include <cstdlib>
#include <string>

#include "server/endpoints.hpp"

using namespace k3;

namespace {

class Grower {
 public:
  explicit Grower(FuzzedDataProvider& choices) : choices_(choices) {}

  std::string body() {
    std::string out = "{";
    const int fields = choices_.ConsumeIntegralInRange(0, 12);
    for (int i = 0; i < fields; ++i) {
      if (i > 0) out += ',';
      field(out, top_, 0);
    }
    // Most requests that are about something have messages.
    if (choices_.ConsumeIntegralInRange(0, 7) > 0) {
      if (fields > 0) out += ',';
      out += R"("messages":)";
      list(out, [&] { object(out, message_, 1); });
    }
    return out + "}";
  }

 private:
  using Names = std::span<const char* const>;
  static constexpr int deepest = 8;

  void list(std::string& out, const auto& item) {
    out += '[';
    const int count = choices_.ConsumeIntegralInRange(0, 3);
    for (int i = 0; i < count; ++i) {
      if (i > 0) out += ',';
      item();
    }
    out += ']';
  }

  void object(std::string& out, Names names, int depth) {
    out += '{';
    const int count = choices_.ConsumeIntegralInRange(0, 5);
    for (int i = 0; i < count; ++i) {
      if (i > 0) out += ',';
      field(out, names, depth);
    }
    out += '}';
  }

  void field(std::string& out, Names names, int depth) {
    out += '"';
    out += names[choices_.ConsumeIntegralInRange<std::size_t>(0, names.size() - 1)];
    out += "\":";
    value(out, depth + 1);
  }

  void value(std::string& out, int depth) {
    switch (choices_.ConsumeIntegralInRange(0, depth < deepest ? 6 : 2)) {
      case 0:
        out += scalars_[choices_.ConsumeIntegralInRange<std::size_t>(0, std::size(scalars_) - 1)];
        break;
      case 1:
        out += json::quoted(words_[choices_.ConsumeIntegralInRange<std::size_t>(0, std::size(words_) - 1)]);
        break;
      case 2:
        out += std::to_string(choices_.ConsumeIntegral<std::int32_t>());
        break;
      case 3:
        list(out, [&] { value(out, depth + 1); });
        break;
      case 4:
        object(out, message_, depth);
        break;
      case 5:
        object(out, tool_, depth);
        break;
      default:
        object(out, schema_, depth);
    }
  }

  FuzzedDataProvider& choices_;
  static constexpr const char* top_[] = {"model",
                                         "messages",
                                         "prompt",
                                         "stream",
                                         "stream_options",
                                         "max_tokens",
                                         "temperature",
                                         "top_p",
                                         "top_k",
                                         "min_p",
                                         "seed",
                                         "stop",
                                         "n",
                                         "logprobs",
                                         "top_logprobs",
                                         "logit_bias",
                                         "response_format",
                                         "tools",
                                         "tool_choice",
                                         "parallel_tool_calls",
                                         "thinking",
                                         "reasoning_effort",
                                         "return_progress",
                                         "chat_template_kwargs",
                                         "special",
                                         "repetition_penalty",
                                         "presence_penalty",
                                         "max_completion_tokens"};
  static constexpr const char* message_[] = {"role",         "content", "name", "tools", "tool_calls", "reasoning_content",
                                             "tool_call_id", "type",    "text", "id",    "function",   "arguments"};
  static constexpr const char* tool_[] = {"type", "function", "name", "description", "parameters", "strict", "effort", "keep"};
  static constexpr const char* schema_[] = {"type",     "properties", "json_schema", "schema", "required",
                                            "strict",   "name",       "items",       "enum",   "include_usage",
                                            "thinking", "$ref",       "anyOf",       "a",      "thinking_effort"};
  static constexpr const char* scalars_[] = {"null", "true", "false", "0", "1", "-1", "0.5", "1e400", "18446744073709551616", "-0"};
  static constexpr const char* words_[] = {"",       "user",     "assistant", "system",      "tool",        "developer",
                                           "text",   "function", "auto",      "required",    "none",        "low",
                                           "max",    "high",     "enabled",   "disabled",    "json_object", "json_schema",
                                           "object", "string",   "look",      "{\"a\": 1e2", "{\"a\":1}",   "<|open|>think<|sep|>",
                                           "😀",      "image_url"};
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const server::ServerOptions options;
  static const auto tokenizer =
      std::make_shared<const text::Tokenizer>(text::Tokenizer::load(K3_SOURCE_DIR "/tools/mini/model").value());
  const server::BodyContext context{.options = options,
                                    .tokenizer = tokenizer,
                                    .model = {.id = "none", .context_limit = 4000, .vocabulary = 1794, .fingerprint = "f"},
                                    .asked = nullptr,
                                    .at_leisure = true};
  FuzzedDataProvider choices(data, size);
  constexpr server::Prepare endpoints[] = {server::chat_completions, server::completions, server::apply_template};
  const server::Prepare endpoint = endpoints[choices.ConsumeIntegralInRange<std::size_t>(0, std::size(endpoints) - 1)];
  const std::string body = Grower(choices).body();
  const server::Prepared prepared = endpoint(body, context);
  const auto* response = std::get_if<server::Response>(&prepared);
  if (response == nullptr) {
    if (std::get<server::AnswerPlan>(prepared).job.prompt.empty()) std::abort();
  } else if (response->status != 200 && response->status != 400) {
    std::fprintf(stderr, "%d for %s\n", response->status, body.c_str());
    std::abort();
  }
  return 0;
}
