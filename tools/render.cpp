// `k3 render`: what the model will read for a chat request, segment by segment.
#include <CLI/Option.hpp>
#include <memory>
#include <string>

#include "model/text/chat_format.hpp"
#include "tools/command.hpp"
#include "tools/common_flags.hpp"
#include "tools/input_output.hpp"

namespace k3::cli {
namespace {

Result<std::string> rendered(const text::Tokenizer& tokenizer, const std::string& input) {
  auto body = json::parse(input);
  if (body.has_error()) return body.error();
  auto request = text::read_chat_request(*body);
  if (request.has_error()) {
    const text::RequestError& error = request.error();
    return fail(ErrorCode::invalid_argument, error.param.empty() ? error.message : error.param + ": " + error.message);
  }
  auto segments = text::render(*request);
  if (segments.has_error()) return segments.error();
  auto ids = tokenizer.encode(*segments);
  if (ids.has_error()) return ids.error();

  std::string out;
  json::Writer writer(out);
  writer.begin_object().key("segments").begin_array();
  for (const text::Segment& segment : *segments)
    writer.begin_array().string(segment.text).boolean(segment.allow_special).end_array();
  writer.end_array().key("ids");
  write_ids(writer, *ids);
  writer.end_object();
  return out + "\n";
}

int render(const std::string& model) {
  auto tokenizer = load_tokenizer(model);
  if (tokenizer.has_error()) return report(tokenizer.error());
  auto input = read_all("-");
  if (input.has_error()) return report(input.error());
  auto out = rendered(*tokenizer, *input);
  if (out.has_error()) return report(out.error());
  auto written = write_out(*out);
  return written.has_error() ? report(written.error()) : exit_ok;
}

}  // namespace

void add_render(CLI::App& app, Chosen& chosen) {
  auto model = std::make_shared<std::string>();
  CLI::App* command = app.add_subcommand("render", "a chat request (JSON on standard input) to the prompt's segments and ids");
  add_model(*command, *model);
  command->footer(
      "A segment is [text, control]: control tokens are recognised only where `control` is true, never in what a user wrote.\n"
      "Example:\n  echo '{\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"}]}' | k3 render bundled");
  command->callback([model, &chosen] { chosen = [model] { return render(*model); }; });
}

}  // namespace k3::cli
