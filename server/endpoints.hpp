// The endpoints. The router has checked method, access and that a model is there where one is needed.
#pragma once

#include "server/app.hpp"
#include "server/body_answer.hpp"

namespace k3::server {

// What is made of a body: see Prepare.
Prepared chat_completions(std::string_view body, const BodyContext& context);
Prepared completions(std::string_view body, const BodyContext& context);
Prepared messages(std::string_view body, const BodyContext& context);
Prepared responses(std::string_view body, const BodyContext& context);
// How many tokens such a body is, without an answer.
Prepared count_message_tokens(std::string_view body, const BodyContext& context);
Prepared count_chat_tokens(std::string_view body, const BodyContext& context);
Prepared count_response_tokens(std::string_view body, const BodyContext& context);
Prepared tokenize(std::string_view body, const BodyContext& context);
Prepared detokenize(std::string_view body, const BodyContext& context);
Prepared apply_template(std::string_view body, const BodyContext& context);

// A chat completion whose body has been parsed: what other protocols are translated to.
Prepared chat_answer(json::Value body, const BodyContext& context);

// These have no body, and need no waiting.
Response list_models(const Request& request, App& app);
Response one_model(const Request& request, App& app);
// Of the answer that the path names: it thinks no more, and goes on to answer.
Response end_thinking(const Request& request, App& app);
Response health(const Request& request, App& app);
Response livez(const Request& request, App& app);
Response readyz(const Request& request, App& app);
Response metrics(const Request& request, App& app);
Response slots(const Request& request, App& app);
Response props(const Request& request, App& app);
Response static_file(const Request& request, App& app);

// The id in `/v1/chat/completions/ID/end_thinking`; empty: another path.
std::string_view thinking_answer(std::string_view path);

// Whether the web client has a file at this path.
bool has_static_file(std::string_view path);

}  // namespace k3::server
