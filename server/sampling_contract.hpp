// SamplingContract::moonshot: the values that Moonshot's own endpoint of K3 takes. They hold for chats in every protocol; text
// completions, which that endpoint does not have, stay free.
#pragma once

#include "server/request_fields.hpp"

namespace k3::server {

// What a chat gets where it says nothing. The seed is of no use here.
generation::Sampling chat_sampling(const ServerOptions& options);

// The first field of a chat's body whose value the server's contract does not know, told with the values it does, and with the
// flag. Values of the wrong type are others' to refuse.
std::optional<ApiError> against_contract(const json::Value& body, const ServerOptions& options);

}  // namespace k3::server
