#include "server/sampling_contract.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <span>

#include "model/text/chat_options.hpp"

namespace k3::server {
namespace {

constexpr std::array<double, 3> kTemperatures{1.0, 0.6, 0.0};  // thinking takes the first one only
constexpr std::array<double, 1> kTopP{0.95};
constexpr std::array<double, 1> kPenalty{0.0};
constexpr std::array<double, 1> kNoRepetitionPenalty{1.0};

struct Rule {
  std::string_view field;
  std::span<const double> allowed;
};

// What is wrong with how thinking is asked for is told elsewhere; here the default stands in for it.
bool thinks(const json::Value& body, const ServerOptions& options) {
  text::ChatRequest request;
  request.thinking = options.thinking.on;
  static_cast<void>(text::read_thinking(body, options.thinking, request));
  return request.thinking;
}

}  // namespace

generation::Sampling chat_sampling(const ServerOptions& options) {
  generation::Sampling sampling = options.sampling;
  if (options.sampling_contract == SamplingContract::open) return sampling;
  sampling.temperature = static_cast<float>(kTemperatures[0]);
  sampling.top_p = static_cast<float>(kTopP[0]);
  sampling.presence_penalty = sampling.frequency_penalty = static_cast<float>(kPenalty[0]);
  return sampling;
}

std::optional<ApiError> against_contract(const json::Value& body, const ServerOptions& options) {
  if (options.sampling_contract == SamplingContract::open) return std::nullopt;
  const bool thinking = thinks(body, options);
  const auto temperatures = std::span<const double>(kTemperatures).first(thinking ? 1 : kTemperatures.size());
  const Rule rules[] = {{"temperature", temperatures},
                        {"top_p", kTopP},
                        {"presence_penalty", kPenalty},
                        {"frequency_penalty", kPenalty},
                        {"repetition_penalty", kNoRepetitionPenalty},
                        {"repeat_penalty", kNoRepetitionPenalty}};
  for (const auto& [field, allowed] : rules) {
    const json::Value* value = body.find(field);
    if (value == nullptr || !value->is_number()) continue;
    const auto number = value->as_double();
    if (number && std::find(allowed.begin(), allowed.end(), *number) != allowed.end()) continue;
    return field_error(field,
                       fmt::format("{} must be {}{}: this server was started with --sampling-contract moonshot, which takes no "
                                   "other value; leave the field out, or have it started with --sampling-contract open",
                                   field, fmt::join(allowed, ", "),
                                   field == "temperature" && thinking ? " with thinking (without it also 0.6 or 0)" : ""),
                       "unsupported_value");
  }
  return std::nullopt;
}

}  // namespace k3::server
