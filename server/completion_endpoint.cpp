#include <fmt/format.h>

#include "server/endpoints.hpp"

namespace k3::server {
namespace {

// OpenAI's documented default; a text completion has no natural end that it would reach by itself.
constexpr std::size_t kDefaultTokens = 16;

std::vector<text::TokenId> encode_prompt(Fields& fields, const text::Tokenizer& tokenizer, const std::string& text) {
  auto ids = tokenizer.encode(text, fields.boolean("special", false));
  if (ids) return std::move(*ids);
  fields.refuse("prompt", ids.error().describe());
  return {};
}

std::vector<text::TokenId> read_ids(Fields& fields, const text::Tokenizer& tokenizer, const json::Value& list) {
  const auto vocabulary = tokenizer.vocabulary_size();
  std::vector<text::TokenId> ids;
  ids.reserve(list.items.size());
  for (const auto& item : list.items) {
    const auto id = item.as_int();
    if (!item.is_number() || !id || *id < 0 || *id >= vocabulary) {
      fields.refuse("prompt", fmt::format("prompt must be a string or an array of token ids from 0 to {}", vocabulary - 1));
      return {};
    }
    ids.push_back(static_cast<text::TokenId>(*id));
  }
  return ids;
}

std::vector<text::TokenId> read_prompt(Fields& fields, const text::Tokenizer& tokenizer) {
  const json::Value* prompt = fields.find("prompt");
  if (prompt == nullptr) {
    fields.refuse("prompt", "prompt is missing", "missing_field");
    return {};
  }
  // A list of one prompt is the same as that prompt; a list of several would be several answers.
  if (prompt->is_array() && prompt->items.size() == 1 && !prompt->items[0].is_number()) prompt = &prompt->items[0];
  std::vector<text::TokenId> ids;
  if (prompt->is_string()) {
    ids = encode_prompt(fields, tokenizer, prompt->text);
  } else if (prompt->is_array()) {
    ids = read_ids(fields, tokenizer, *prompt);
  } else {
    fields.refuse("prompt", "prompt must be a string or an array of token ids", "invalid_type");
  }
  if (ids.empty()) fields.refuse("prompt", "prompt must hold at least one token");
  return ids;
}

void refuse_unserved(Fields& fields) {
  if (fields.boolean("echo", false)) fields.refuse("echo", "echo is not served", "unsupported_value");
  if (!fields.string("suffix", {}).empty()) fields.refuse("suffix", "suffix is not served", "unsupported_value");
  if (fields.integer("best_of", 1, 1'000'000).value_or(1) != 1)
    fields.refuse("best_of", "only best_of = 1 is served", "unsupported_value");
}

}  // namespace

Prepared completions(std::string_view text, const BodyContext& context) {
  const auto body = read_body(text, context.options);
  if (!body) return error_response(body.error());
  AnswerPlan plan{.chat = false};
  plan.answer.plain = true;
  plan.answer.thinking = false;
  Fields fields(*body);
  read_answer_fields(fields, context, plan);
  refuse_unserved(fields);
  plan.job.prompt = read_prompt(fields, *context.tokenizer);
  if (fields.error()) return error_response(*fields.error());
  if (!plan.max_tokens) plan.max_tokens = kDefaultTokens;
  if (auto error = fit_context(plan, context.model)) return error_response(*error);
  return plan;
}

}  // namespace k3::server
