// Endpoints that the model has no part in: its name, health, and the text tools.
#include <fmt/format.h>

#include "server/chat_request.hpp"
#include "server/endpoints.hpp"
#include "server/openai_shapes.hpp"

namespace k3::server {
namespace {

Response state_response(const App& app) {
  if (app.draining) return {.status = 503, .body = R"({"status":"draining"})"};
  if (!app.model) return {.status = 503, .body = R"({"status":"loading"})"};
  return {.body = R"({"status":"ok"})"};
}

void write_ids(json::Writer& writer, const std::vector<text::TokenId>& ids) {
  writer.begin_array();
  for (const auto id : ids) writer.integer(id);
  writer.end_array();
}

}  // namespace

Response health(const Request&, App& app) { return state_response(app); }
Response readyz(const Request&, App& app) { return state_response(app); }
// The process is alive whatever the model does: only a hung server thread fails this.
Response livez(const Request&, App&) { return {.body = R"({"status":"ok"})"}; }

Response list_models(const Request&, App& app) { return {.body = model_list(app.model->info(), app.started)}; }

Response one_model(const Request& request, App& app) {
  constexpr std::string_view kPrefix = "/v1/models/";
  const ModelInfo info = app.model->info();
  if (request.path.substr(kPrefix.size()) == info.id) return {.body = model_object(info, app.started)};
  return error_response({.status = 404, .message = "this model is not served here", .param = "model", .code = "model_not_found"});
}

Prepared tokenize(std::string_view text, const BodyContext& context) {
  const auto body = read_body(text, context.options);
  if (!body) return error_response(body.error());
  Fields fields(*body);
  if (fields.find("content") == nullptr) fields.refuse("content", "content is missing", "missing_field");
  const std::string content = fields.string("content", {});
  // Accepted under its usual name; K3 has no token that a text would begin or end with.
  static_cast<void>(fields.boolean("add_special", false));
  const bool special = fields.boolean("special", false);
  if (fields.error()) return error_response(*fields.error());
  const auto ids = context.tokenizer->encode(content, special);
  if (!ids) return error_response(field_error("content", ids.error().describe()));
  Response response;
  json::Writer writer(response.body);
  writer.begin_object().key("tokens");
  write_ids(writer, *ids);
  writer.end_object();
  return response;
}

Prepared detokenize(std::string_view text, const BodyContext& context) {
  const auto body = read_body(text, context.options);
  if (!body) return error_response(body.error());
  Fields fields(*body);
  const json::Value* tokens = fields.array("tokens");
  if (tokens == nullptr) fields.refuse("tokens", "tokens is missing", "missing_field");
  std::vector<text::TokenId> ids;
  const auto vocabulary = context.tokenizer->vocabulary_size();
  for (std::size_t i = 0; tokens != nullptr && i < tokens->items.size(); ++i) {
    const auto id = tokens->items[i].as_int();
    if (!tokens->items[i].is_number() || !id || *id < 0 || *id >= vocabulary) {
      fields.refuse(fmt::format("tokens[{}]", i), fmt::format("must be an integer from 0 to {}", vocabulary - 1));
      break;
    }
    ids.push_back(static_cast<text::TokenId>(*id));
  }
  if (fields.error()) return error_response(*fields.error());
  Response response;
  json::Writer writer(response.body);
  writer.begin_object().key("content").string(context.tokenizer->decode(ids)).end_object();
  return response;
}

Prepared apply_template(std::string_view text, const BodyContext& context) {
  auto body = read_body(text, context.options);
  if (!body) return error_response(body.error());
  const auto prompt = chat_prompt(std::move(*body), context);
  if (!prompt) return error_response(prompt.error());
  std::string whole;
  for (const auto& segment : prompt->segments) whole += segment.text;
  Response response;
  json::Writer writer(response.body);
  writer.begin_object().key("prompt").string(whole).key("segments").begin_array();
  for (const auto& segment : prompt->segments) writer.begin_array().string(segment.text).boolean(segment.allow_special).end_array();
  writer.end_array().key("tokens");
  write_ids(writer, prompt->ids);
  writer.end_object();
  return response;
}

}  // namespace k3::server
