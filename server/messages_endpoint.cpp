#include "server/endpoints.hpp"
#include "server/messages_request.hpp"

namespace k3::server {

Prepared messages(std::string_view text, const BodyContext& context) {
  auto body = read_body(text, context.options);
  if (!body) return error_response(body.error());
  auto chat = translate_messages(std::move(*body), false);
  if (!chat) return error_response(chat.error());
  ShapeMaker shape = messages_shape(chat->omit_thinking);
  return translated_answer(std::move(*chat), messages_names(), std::move(shape), context);
}

}  // namespace k3::server
