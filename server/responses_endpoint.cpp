#include "server/endpoints.hpp"
#include "server/responses_request.hpp"

namespace k3::server {
namespace {

// What clients find in a response as they sent it, and what stands there where they sent nothing.
constexpr std::pair<std::string_view, std::string_view> kEchoed[] = {{"instructions", "null"},
                                                                     {"max_output_tokens", "null"},
                                                                     {"metadata", "{}"},
                                                                     {"parallel_tool_calls", "true"},
                                                                     {"reasoning", R"({"effort":null,"summary":null})"},
                                                                     {"temperature", "null"},
                                                                     {"text", R"({"format":{"type":"text"}})"},
                                                                     {"tool_choice", R"("auto")"},
                                                                     {"tools", "[]"},
                                                                     {"top_p", "null"},
                                                                     {"user", "null"}};

}  // namespace

ResponseEcho response_echo(const json::Value& body) {
  ResponseEcho echo{.fields = object_value()};
  for (const auto& [name, otherwise] : kEchoed) {
    const json::Value* sent = body.find(name);
    const bool given = sent != nullptr && !sent->is_null();
    put(echo.fields, name, given ? *sent : json::parse(otherwise).value());
  }
  const json::Value* include = body.find("include");
  if (include == nullptr) return echo;
  for (const auto& wish : include->items)
    echo.encrypted_content = echo.encrypted_content || wish.text == "reasoning.encrypted_content";
  return echo;
}

Prepared responses(std::string_view text, const BodyContext& context) {
  auto body = read_body(text, context.options);
  if (!body) return error_response(body.error());
  ResponseEcho echo = response_echo(*body);
  auto chat = translate_response(std::move(*body));
  if (!chat) return error_response(chat.error());
  return translated_answer(std::move(*chat), responses_names(), responses_shape(std::move(echo)), context);
}

}  // namespace k3::server
