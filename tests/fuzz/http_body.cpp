// A chat body of any bytes: parsed, read field by field and rendered, or refused with a message that is itself valid JSON.
#include <cstdlib>
#include <string_view>

#include "model/text/chat_format.hpp"
#include "server/request_fields.hpp"

using namespace k3;

namespace {

void check(bool holds) {
  if (!holds) std::abort();
}

void check_error(const server::ApiError& error) {
  check(error.status >= 400);
  check(json::parse(server::error_json(error)).has_value());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto body = server::read_body(text, server::ServerOptions{});
  if (!body) {
    check_error(body.error());
    return 0;
  }
  server::Fields fields(*body);
  fields.boolean("stream", false);
  fields.number("temperature", 1, 0, 2);
  fields.integer("max_tokens", 1, 1000);
  fields.string("model", "");
  if (fields.error()) check_error(*fields.error());
  const auto request = text::read_chat_request(*body);
  if (!request) {
    check_error({.message = request.error().message, .param = request.error().param});
    return 0;
  }
  const auto segments = text::render(*request);
  if (!segments) check_error({.message = segments.error().describe()});
  return 0;
}
