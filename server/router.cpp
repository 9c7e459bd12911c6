#include "server/router.hpp"

#include <algorithm>
#include <cctype>

#include "server/endpoints.hpp"

namespace k3::server {
namespace {

constexpr std::chrono::seconds kUnknownLoad{10};

// Of a Retry-After, which knows whole seconds.
std::string seconds_from(Clock::duration left) {
  return std::to_string(std::max<std::int64_t>(1, std::chrono::ceil<std::chrono::seconds>(left).count()));
}

struct Route {
  bool post;
  std::string_view path;
  bool open;         // asks for no key
  bool needs_model;  // is refused while the model loads and while the server drains
  Response (*answer)(const Request&, App&);
  Prepare prepare;  // of those with a body
};

constexpr Route kRoutes[] = {
    {true, "/v1/chat/completions", false, true, nullptr, chat_completions},
    {true, "/v1/completions", false, true, nullptr, completions},
    {true, "/v1/messages", false, true, nullptr, messages},
    {true, "/v1/messages/count_tokens", false, true, nullptr, count_message_tokens},
    {true, "/v1/responses", false, true, nullptr, responses},
    {true, "/v1/responses/input_tokens", false, true, nullptr, count_response_tokens},
    {true, "/v1/chat/completions/input_tokens", false, true, nullptr, count_chat_tokens},
    {true, "/tokenize", false, true, nullptr, tokenize},
    {true, "/detokenize", false, true, nullptr, detokenize},
    {true, "/apply-template", false, true, nullptr, apply_template},
    {false, "/v1/models", false, true, list_models, nullptr},
    {false, "/health", true, false, health, nullptr},
    {false, "/livez", true, false, livez, nullptr},
    {false, "/readyz", true, false, readyz, nullptr},
    // With a key: how much a machine is used, and when, is its owner's business.
    {false, "/metrics", false, false, metrics, nullptr},
    {false, "/slots", false, false, slots, nullptr},
    {false, "/props", false, true, props, nullptr},
};
constexpr Route kOneModel{false, "/v1/models/", false, true, one_model, nullptr};
constexpr Route kEndThinking{true, "/v1/chat/completions/", false, true, end_thinking, nullptr};
// Without a key: the page itself is no secret, and a browser could not send one when it is opened.
constexpr Route kStatic{false, "", true, false, static_file, nullptr};

const Route* find_route(std::string_view path) {
  for (const auto& route : kRoutes) {
    if (route.path == path) return &route;
  }
  if (path.starts_with(kOneModel.path) && path.size() > kOneModel.path.size()) return &kOneModel;
  if (!thinking_answer(path).empty()) return &kEndThinking;
  return has_static_file(path) ? &kStatic : nullptr;
}

std::string allowed_methods(const Route& route) { return route.post ? "POST, OPTIONS" : "GET, HEAD, OPTIONS"; }

bool method_fits(const Route& route, std::string_view method) {
  return route.post ? method == "POST" : method == "GET" || method == "HEAD";
}

bool is_open(const Route* route, const App& app) {
  return route != nullptr && (route->open || (route->answer == metrics && app.options.metrics_public));
}

// Of the fields a page wants to send, those it may; in lower case, as browsers write them.
std::string allowed_headers(std::string_view wanted) {
  constexpr std::string_view kAllowed[] = {"accept",
                                           "anthropic-beta",
                                           "anthropic-dangerous-direct-browser-access",
                                           "anthropic-version",
                                           "authorization",
                                           "content-type",
                                           "idempotency-key",
                                           "openai-beta",
                                           "openai-organization",
                                           "openai-project",
                                           "x-api-key",
                                           "x-keepalive",
                                           "x-request-id"};
  std::string result;
  const auto add = [&result](std::string_view name) { result.append(result.empty() ? "" : ", ").append(name); };
  for (const auto name : kAllowed) add(name);
  // The openai packages send a dozen of these, and more with each release.
  constexpr std::string_view kPrefix = "x-stainless-";
  while (!wanted.empty()) {
    const std::size_t comma = std::min(wanted.find(','), wanted.size());
    std::string name;
    for (const char c : wanted.substr(0, comma)) {
      if (c != ' ') name += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    }
    const bool plain = name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-") == std::string::npos;
    if (name.starts_with(kPrefix) && plain) add(name);
    wanted.remove_prefix(std::min(comma + 1, wanted.size()));
  }
  return result;
}

// What may be asked at a path; to a browser that asks for a page of another origin, in its own terms.
Response options_response(const Request& request, const Route* route) {
  const std::string methods = route != nullptr ? allowed_methods(*route) : "GET, HEAD, POST, OPTIONS";
  Response response{.status = 204, .content_type = "", .headers = {{"Allow", methods}}};
  if (request.allowed_origin.empty() || request.wanted_method.empty()) return response;
  response.headers.emplace_back("Access-Control-Allow-Methods", methods);
  response.headers.emplace_back("Access-Control-Allow-Headers", allowed_headers(request.wanted_headers));
  response.headers.emplace_back("Access-Control-Max-Age", "600");
  if (request.from_public_page) response.headers.emplace_back("Access-Control-Allow-Private-Network", "true");
  return response;
}

}  // namespace

std::optional<ApiError> admit(Request& request, const App& app) {
  if (auto refusal = app.access.check_site(request)) return refusal;
  // A preflight carries no key and does nothing.
  if (request.method == "OPTIONS") return std::nullopt;
  const Route* route = find_route(request.path);
  if (!is_open(route, app)) {
    if (auto refusal = app.access.check_key(request)) return refusal;
  }
  if (route == nullptr) return ApiError{.status = 404, .message = "there is nothing at this path", .code = "not_found"};
  if (!method_fits(*route, request.method)) {
    return ApiError{.status = 405,
                    .message = "this path answers " + allowed_methods(*route),
                    .code = "method_not_allowed",
                    .headers = {{"Allow", allowed_methods(*route)}}};
  }
  if (route->post && !request.has_length) {
    return ApiError{
        .status = 411, .message = "a body is needed here, with its Content-Length or chunked", .code = "length_required"};
  }
  if (!route->needs_model) return std::nullopt;
  if (app.draining) {
    return ApiError{.status = 503,
                    .message = "the server is shutting down",
                    .code = "shutting_down",
                    .headers = {{"Retry-After", seconds_from(app.drain_ends - Clock::now())}, {"x-should-retry", "false"}}};
  }
  if (!app.model) {
    return ApiError{.status = 503,
                    .message = "the model is still loading",
                    .code = "model_loading",
                    .headers = {{"Retry-After", seconds_from(app.load_left.value_or(kUnknownLoad))}}};
  }
  return std::nullopt;
}

std::string_view endpoint_name(std::string_view path) {
  const Route* route = find_route(path);
  if (route == nullptr) return "other";
  if (route == &kEndThinking) return "/v1/chat/completions/{id}/end_thinking";
  return route == &kOneModel ? "/v1/models/{id}" : route == &kStatic ? "static" : route->path;
}

asio::awaitable<void> dispatch(Exchange& exchange, App& app) {
  const Route* route = find_route(exchange.request().path);
  Response response;
  if (exchange.request().method == "OPTIONS") {
    response = options_response(exchange.request(), route);
  } else if (route->prepare != nullptr) {
    co_await answer_body(exchange, app, route->prepare);
    co_return;
  } else {
    response = route->answer(exchange.request(), app);
  }
  co_await exchange.respond(response);
}

}  // namespace k3::server
