// Errors in the words of the Messages protocol.
#include <fmt/format.h>

#include <algorithm>

#include "model/text/json.hpp"
#include "server/http_io.hpp"

namespace k3::server {
namespace {

std::string_view error_type(unsigned status) {
  switch (status) {
    case 401:
      return "authentication_error";
    case 403:
      return "permission_error";
    case 404:
      return "not_found_error";
    case 413:
      return "request_too_large";
    case 429:
      return "rate_limit_error";
    case 503:
      return "overloaded_error";
    case 505:
      return "invalid_request_error";  // the request is to change, not the server
    default:
      return status >= 500 ? "api_error" : "invalid_request_error";
  }
}

std::int64_t detail(const ApiError& error, std::string_view name) {
  const auto found =
      std::find_if(error.details.begin(), error.details.end(), [name](const auto& one) { return one.first == name; });
  return found == error.details.end() ? 0 : found->second;
}

// Agents look for the wording of their protocol to know that they must shorten the conversation.
std::string message_of(const ApiError& error) {
  if (error.code != "context_length_exceeded" || error.details.empty()) return error.message;
  return fmt::format("prompt is too long: {} tokens > {} maximum", detail(error, "n_prompt_tokens"), detail(error, "n_ctx"));
}

}  // namespace

bool speaks_messages(std::string_view path) {
  constexpr std::string_view kMessages = "/v1/messages";
  return path.starts_with(kMessages) && (path.size() == kMessages.size() || path[kMessages.size()] == '/');
}

std::string messages_error_json(const ApiError& error, std::string_view request) {
  std::string text;
  json::Writer writer(text);
  writer.begin_object().key("type").string("error").key("error").begin_object();
  writer.key("type").string(error_type(error.status)).key("message").string(message_of(error));
  for (const auto& [name, value] : error.headers) {
    if (name == "x-should-retry") writer.key("should_retry").boolean(value == "true");
  }
  writer.end_object().key("request_id").string(request).end_object();
  return text;
}

}  // namespace k3::server
