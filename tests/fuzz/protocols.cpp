// Any body as a request of Messages and of Responses, and as one to be counted: an answer is planned, or the refusal is a 4xx that
// is itself valid JSON in either envelope and names nothing outside the request.
#include <cstdlib>
#include <string_view>

#include "server/endpoints.hpp"
#include "server/messages_request.hpp"
#include "server/responses_request.hpp"

using namespace k3;

namespace {

void check(bool holds) {
  if (!holds) std::abort();
}

struct NoModel final : Model {
  Result<void> submit(Job, std::shared_ptr<Ticket>) override { return {}; }
  ModelInfo info() const override { return {.id = "none", .context_limit = 100'000, .vocabulary = 1794, .fingerprint = ""}; }
  ModelStatus status() const override { return {}; }
};

const server::BodyContext& context() {
  static const server::ServerOptions options;
  static const auto tokenizer =
      std::make_shared<const text::Tokenizer>(text::Tokenizer::load(K3_SOURCE_DIR "/tools/mini/model").value());
  static const server::BodyContext made{.options = options,
                                        .tokenizer = tokenizer,
                                        .model = NoModel().info(),
                                        .asked = std::make_shared<const NoModel>(),
                                        .at_leisure = true};
  return made;
}

// Some of an answer in every shape that a request asked for, as a stream and whole.
void tell(server::AnswerPlan& plan) {
  check(!plan.job.prompt.empty() && plan.shape);
  const text::ParsedMessage message{.reasoning = "r", .content = "c", .tool_calls = {{"f_0", "f", "{}"}}};
  const server::AnswerEnd end{
      .message = message, .reason = "length", .stop_string = "", .cut = generation::CutIn::call, .usage = {.timings = {}}};
  const std::vector<text::Delta> deltas{text::ReasoningDelta{"r"}, text::ContentDelta{"c"}, text::ToolCallBegin{0, "f_0", "f"},
                                        text::ToolCallArguments{0, "{}"}, text::ToolCallEnd{0}};
  server::AnswerHead head;
  head.id = "0";
  check(json::parse(plan.shape(head)->whole(end, {})).has_value());
  const auto shape = plan.shape(head);
  for (const auto& frames : {shape->opening(plan.ping_style), shape->more(deltas, {}), shape->end(end)}) {
    for (const std::string_view frame : frames) {
      const std::size_t data = frame.find("\ndata: ");
      check(data != frame.npos && frame.ends_with("\n\n"));
      check(json::parse(frame.substr(data + 7, frame.size() - data - 9)).has_value());
    }
  }
}

void run(server::Prepare prepare, std::string_view body) {
  server::Prepared prepared = prepare(body, context());
  if (auto* plan = std::get_if<server::AnswerPlan>(&prepared)) return tell(*plan);
  const auto& response = std::get<server::Response>(prepared);
  check(json::parse(response.body).has_value());
  if (response.status == 200) return;
  check(response.status >= 400 && response.status < 500 && response.error);
  check(json::parse(server::messages_error_json(*response.error, "req")).has_value());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view body(reinterpret_cast<const char*>(data), size);
  for (const server::Prepare prepare : {server::messages, server::responses, server::count_message_tokens,
                                        server::count_response_tokens, server::count_chat_tokens})
    run(prepare, body);
  return 0;
}
