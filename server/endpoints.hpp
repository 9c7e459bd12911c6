// The endpoints. Each answers exactly once through the exchange; the router has checked method, access and that a model is there
// where one is needed. Exchange and app outlive the calls.
#pragma once

#include "server/app.hpp"
#include "server/http_io.hpp"

namespace k3::server {

asio::awaitable<void> chat_completions(Exchange& exchange, App& app);
asio::awaitable<void> completions(Exchange& exchange, App& app);

// These need no waiting.
Response list_models(const Request& request, App& app);
Response one_model(const Request& request, App& app);
Response health(const Request& request, App& app);
Response livez(const Request& request, App& app);
Response readyz(const Request& request, App& app);
Response tokenize(const Request& request, App& app);
Response detokenize(const Request& request, App& app);
Response apply_template(const Request& request, App& app);
Response static_file(const Request& request, App& app);

// Whether the web client has a file at this path.
bool has_static_file(std::string_view path);

}  // namespace k3::server
