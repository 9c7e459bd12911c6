// What the server is doing, and how it was set up: for its owner, never with a word of what clients asked.
#include "model/text/json.hpp"
#include "server/endpoints.hpp"
#include "server/run_board.hpp"
#include "server/sampling_contract.hpp"

namespace k3::server {
namespace {

void write_count(json::Writer& writer, std::string_view name, std::size_t value) {
  writer.key(name).integer(static_cast<std::int64_t>(value));
}

void write_limits(json::Writer& writer, const Limits& limits) {
  writer.key("limits").begin_object();
  write_count(writer, "header_bytes", limits.header_bytes);
  write_count(writer, "header_fields", limits.header_fields);
  write_count(writer, "body_bytes", limits.body_bytes);
  write_count(writer, "json_depth", limits.json_depth);
  write_count(writer, "tools", limits.tools);
  write_count(writer, "stops", limits.stops);
  write_count(writer, "connections", limits.connections);
  write_count(writer, "connections_per_address", limits.connections_per_address);
  write_count(writer, "header_deadline_ms", static_cast<std::size_t>(limits.header_deadline.count()));
  write_count(writer, "body_deadline_ms", static_cast<std::size_t>(limits.body_deadline.count()));
  write_count(writer, "idle_ms", static_cast<std::size_t>(limits.idle.count()));
  write_count(writer, "write_stall_ms", static_cast<std::size_t>(limits.write_stall.count()));
  writer.end_object();
}

void write_sampling(json::Writer& writer, const generation::Sampling& sampling) {
  writer.key("default_generation_settings").begin_object();
  writer.key("temperature").number(sampling.temperature).key("top_p").number(sampling.top_p);
  writer.key("top_k").integer(sampling.top_k).key("min_p").number(sampling.min_p);
  writer.end_object();
}

}  // namespace

Response slots(const Request&, App& app) {
  Response response;
  json::Writer writer(response.body);
  writer.begin_array();
  for (const InStage* answer : app.metrics.answers) {
    writer.begin_object().key("id").string(answer->id());
    writer.key("state").string(kStageNames[static_cast<std::size_t>(answer->stage())]);
    writer.key("age_s").number(answer->age());
    if (answer->stage() == Stage::queued) write_count(writer, "ahead", answer->position);
    write_count(writer, "prompt_tokens", answer->prompt_tokens);
    write_count(writer, "prompt_done", answer->prompt_done);
    write_count(writer, "prompt_cached", answer->prompt_cached);
    write_count(writer, "output_tokens", answer->output_tokens);
    writer.end_object();
  }
  writer.end_array();
  return response;
}

std::string_view thinking_answer(std::string_view path) {
  constexpr std::string_view kBefore = "/v1/chat/completions/", kAfter = "/end_thinking";
  if (!path.starts_with(kBefore) || !path.ends_with(kAfter) || path.size() <= kBefore.size() + kAfter.size()) return {};
  return path.substr(kBefore.size(), path.size() - kBefore.size() - kAfter.size());
}

Response end_thinking(const Request& request, App& app) {
  const std::string_view id = thinking_answer(request.path);
  const auto run = app.runs->with_id(id, request.key_name);
  if (!run) {
    return error_response({.status = 404,
                           .message = "no answer of this id is under way; its id is in the first chunk of a stream",
                           .param = "id",
                           .code = "not_found"});
  }
  run->end_thinking();
  Response response;
  json::Writer(response.body).begin_object().key("id").string(id).key("thinking").string("ending").end_object();
  return response;
}

Response props(const Request&, App& app) {
  const ModelInfo info = app.model->info();
  const ServerOptions& options = app.options;
  Response response;
  json::Writer writer(response.body);
  writer.begin_object().key("model").string(info.id).key("fingerprint").string(info.fingerprint);
  write_count(writer, "n_ctx", info.context_limit);
  write_count(writer, "n_vocab", info.vocabulary);
  write_sampling(writer, chat_sampling(options));
  writer.key("sampling_contract").string(options.sampling_contract == SamplingContract::moonshot ? "moonshot" : "open");
  writer.key("thinking").boolean(options.thinking.on);
  write_count(writer, "ping_interval_ms", static_cast<std::size_t>(options.ping_interval.count()));
  write_count(writer, "drain_ms", static_cast<std::size_t>(options.drain_deadline.count()));
  writer.key("api_key_needed").boolean(!options.api_key_file.empty());
  writer.key("tls").boolean(!options.tls_certificate.empty());
  writer.key("half_close").boolean(options.half_close);
  writer.key("metrics_public").boolean(options.metrics_public);
  write_limits(writer, options.limits);
  writer.end_object();
  return response;
}

}  // namespace k3::server
