// Which request goes where, and which goes nowhere.
#pragma once

#include "server/app.hpp"

namespace k3::server {

// What can be refused on sight of the head, before any of the body is read. Notes whose key it came with.
std::optional<ApiError> admit(Request& request, const App& app);

// What a path is called in metrics: one of a few names, whatever a client asks for. Lives as long as the program.
std::string_view endpoint_name(std::string_view path);

// Answers an admitted request. Both outlive the call.
asio::awaitable<void> dispatch(Exchange& exchange, App& app);

}  // namespace k3::server
