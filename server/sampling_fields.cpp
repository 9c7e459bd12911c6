#include "server/sampling_fields.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <limits>

namespace k3::server {
namespace {

constexpr std::int64_t kInt64Max = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t kInt64Min = std::numeric_limits<std::int64_t>::min();

std::optional<std::int32_t> token_id(std::string_view key, text::TokenId vocabulary) {
  std::int32_t id = -1;
  const auto [end, failure] = std::from_chars(key.data(), key.data() + key.size(), id);
  const bool whole = failure == std::errc() && end == key.data() + key.size();
  // "01" beside "1" would be two biases of one token.
  if (!whole || id < 0 || id >= vocabulary || (key.size() > 1 && key[0] == '0') || key[0] == '-') return std::nullopt;
  return id;
}

}  // namespace

void read_sampling(Fields& fields, generation::Sampling& sampling) {
  const auto real = [&fields](std::string_view name, float& value, double low, double high) {
    value = static_cast<float>(fields.number(name, value, low, high));
  };
  real("temperature", sampling.temperature, 0, kHottest);
  real("top_p", sampling.top_p, 0, 1);
  // A float of a tiny double may be 0 as well, and 0 keeps no token at all.
  if (!(sampling.top_p > 0)) fields.refuse("top_p", "top_p must be greater than 0 and at most 1");
  const std::int64_t top_k = fields.integer("top_k", -1, std::numeric_limits<int>::max()).value_or(sampling.top_k);
  sampling.top_k = static_cast<int>(std::max<std::int64_t>(top_k, 0));
  real("min_p", sampling.min_p, 0, 1);
  if (!(sampling.min_p < 1)) fields.refuse("min_p", "min_p must be at least 0 and less than 1");
  const std::string_view repetition = fields.find("repetition_penalty") != nullptr ? "repetition_penalty" : "repeat_penalty";
  real(repetition, sampling.repetition_penalty, 0, 100);
  if (!(sampling.repetition_penalty > 0)) fields.refuse(repetition, std::string(repetition) + " must be greater than 0");
  real("presence_penalty", sampling.presence_penalty, -2, 2);
  real("frequency_penalty", sampling.frequency_penalty, -2, 2);
  if (const auto seed = fields.integer("seed", kInt64Min, kInt64Max)) sampling.seed = static_cast<std::uint64_t>(*seed);
}

void read_logit_bias(Fields& fields, const Limits& limits, text::TokenId vocabulary, generation::Sampling& sampling) {
  const json::Value* biases = fields.object("logit_bias");
  if (biases == nullptr) return;
  if (biases->members.size() > limits.logit_bias) {
    return fields.refuse("logit_bias", fmt::format("logit_bias may hold at most {} entries", limits.logit_bias));
  }
  Fields entries(*biases, "logit_bias.");
  for (const auto& [key, value] : biases->members) {
    const auto id = token_id(key, vocabulary);
    if (!id) {
      return fields.refuse("logit_bias", fmt::format("logit_bias names a token that is not one of 0 to {}", vocabulary - 1));
    }
    sampling.logit_bias.emplace_back(*id, static_cast<float>(entries.number(key, 0, -100, 100)));
  }
  fields.adopt(entries);
}

void read_stops(Fields& fields, const Limits& limits, std::vector<std::string>& stops) {
  const json::Value* stop = fields.find("stop");
  if (stop == nullptr) return;
  const auto add = [&](const json::Value& item) {
    if (!item.is_string()) return fields.refuse("stop", "stop must be a string or an array of strings", "invalid_type");
    if (item.text.empty()) return fields.refuse("stop", "a stop string must not be empty");
    if (item.text.size() > limits.stop_bytes) {
      return fields.refuse("stop", fmt::format("a stop string may have at most {} bytes", limits.stop_bytes));
    }
    stops.push_back(item.text);
  };
  if (!stop->is_array()) return add(*stop);
  if (stop->items.size() > limits.stops) {
    return fields.refuse("stop", fmt::format("stop may hold at most {} strings", limits.stops));
  }
  for (const auto& item : stop->items) add(item);
}

std::optional<std::size_t> read_thinking_budget(Fields& fields) {
  const auto one = fields.integer("reasoning_budget", -1, kInt64Max);
  const auto other = fields.integer("thinking_token_budget", -1, kInt64Max);
  const std::int64_t budget = one.value_or(other.value_or(-1));
  return budget < 0 ? std::nullopt : std::optional(static_cast<std::size_t>(budget));
}

std::optional<std::size_t> read_max_tokens(Fields& fields) {
  const auto older = fields.integer("max_tokens", 1, kInt64Max);
  const auto newer = fields.integer("max_completion_tokens", 1, kInt64Max);
  const auto wanted = newer ? newer : older;
  return wanted ? std::optional(static_cast<std::size_t>(*wanted)) : std::nullopt;
}

}  // namespace k3::server
