// `k3 parse`: output ids of the model to the message a client would get.
#include <CLI/Option.hpp>
#include <memory>
#include <string>

#include "model/text/channel_parser.hpp"
#include "tools/command.hpp"
#include "tools/common_flags.hpp"
#include "tools/input_output.hpp"
#include "tools/message_json.hpp"

namespace k3::cli {
namespace {

Result<std::string> parsed(const text::Tokenizer& tokenizer, const std::string& input) {
  auto body = json::parse(input);
  if (body.has_error()) return body.error();
  const json::Value* list = body->find("ids");
  const json::Value* thinking = body->find("thinking");
  if (list == nullptr)
    return fail(ErrorCode::invalid_argument, "expected an object with \"ids\" (and \"thinking\", true by default)");
  if (thinking != nullptr && !thinking->is_bool() && !thinking->is_null())
    return fail(ErrorCode::invalid_argument, "\"thinking\" must be true or false");
  auto ids = ids_of(*list);
  if (ids.has_error()) return ids.error();

  text::ChannelParser parser(tokenizer, thinking == nullptr || thinking->is_null() || thinking->boolean);
  for (const text::TokenId id : *ids) {
    if (id < 0 || id >= tokenizer.vocabulary_size())
      return fail(ErrorCode::invalid_argument, "id " + std::to_string(id) + " is outside the vocabulary");
    parser.push(id);
  }
  const bool ended = parser.ended();
  parser.finish();
  const text::ParsedMessage& message = parser.message();

  std::string out;
  json::Writer writer(out);
  writer.begin_object();
  write_message(writer, message);
  writer.key("finish_reason").string(!ended ? "length" : message.tool_calls.empty() ? "stop" : "tool_calls");
  writer.end_object();
  return out + "\n";
}

int parse(const std::string& model) {
  auto tokenizer = load_tokenizer(model);
  if (tokenizer.has_error()) return report(tokenizer.error());
  auto input = read_all("-");
  if (input.has_error()) return report(input.error());
  auto out = parsed(*tokenizer, *input);
  if (out.has_error()) return report(out.error());
  auto written = write_out(*out);
  return written.has_error() ? report(written.error()) : exit_ok;
}

}  // namespace

void add_parse(CLI::App& app, Chosen& chosen) {
  auto model = std::make_shared<std::string>();
  CLI::App* command =
      app.add_subcommand("parse", "the model's output ids (JSON on standard input) to thinking, answer and tool calls");
  add_model(*command, *model);
  command->footer("Example:\n  echo '{\"ids\":[457,1540,291,1541,1538],\"thinking\":false}' | k3 parse bundled");
  command->callback([model, &chosen] { chosen = [model] { return parse(*model); }; });
}

}  // namespace k3::cli
