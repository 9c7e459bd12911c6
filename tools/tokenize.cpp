// `k3 tokenize` and `k3 detokenize`: one JSON value a line in, one a line out.
#include <CLI/Option.hpp>
#include <iostream>
#include <memory>
#include <string>

#include "tools/command.hpp"
#include "tools/common_flags.hpp"
#include "tools/input_output.hpp"

namespace k3::cli {
namespace {

using Line = std::function<Result<std::string>(const json::Value&)>;

// Applies `line` to each line of standard input. Output is flushed a line at a time, so that a pipe can hold a conversation.
int each_line(const Line& line) {
  std::string text;
  for (std::size_t number = 1; std::getline(std::cin, text); ++number) {
    if (text.find_first_not_of(" \t\r") == std::string::npos) continue;
    auto value = json::parse(text);
    auto answer = value.has_error() ? Result<std::string>(value.error()) : line(*value);
    if (answer.has_error()) return report("line " + std::to_string(number) + " of standard input: " + answer.error().describe());
    if (auto written = write_out(*answer + "\n"); written.has_error()) return report(written.error());
  }
  return exit_ok;
}

int tokenize(const std::string& model, bool special) {
  auto tokenizer = load_tokenizer(model);
  if (tokenizer.has_error()) return report(tokenizer.error());
  return each_line([&](const json::Value& value) -> Result<std::string> {
    if (!value.is_string()) return fail(ErrorCode::invalid_argument, "expected a JSON string, such as \"hello\"");
    auto ids = tokenizer->encode(value.text, special);
    if (ids.has_error()) return ids.error();
    std::string out;
    json::Writer writer(out);
    write_ids(writer, *ids);
    return out;
  });
}

int detokenize(const std::string& model) {
  auto tokenizer = load_tokenizer(model);
  if (tokenizer.has_error()) return report(tokenizer.error());
  return each_line([&](const json::Value& value) -> Result<std::string> {
    auto ids = ids_of(value);
    if (ids.has_error()) return ids.error();
    for (const text::TokenId id : *ids) {
      if (id < tokenizer->vocabulary_size()) continue;
      return fail(ErrorCode::invalid_argument, "no token has the id " + std::to_string(id) + "; the vocabulary has " +
                                                   std::to_string(tokenizer->vocabulary_size()));
    }
    return json::quoted(tokenizer->decode(*ids));
  });
}

}  // namespace

void add_tokenize(CLI::App& app, Chosen& chosen) {
  struct Flags {
    std::string model;
    bool special = false;
  };
  auto flags = std::make_shared<Flags>();
  CLI::App* command = app.add_subcommand("tokenize", "JSON strings, one a line, to token ids");
  add_model(*command, flags->model);
  add_switch(*command, "--special", flags->special,
             "recognise reserved tokens such as <|open|>; without it they are ordinary text");
  command->footer("Example:\n  echo '\"hello\"' | k3 tokenize bundled");
  command->callback([flags, &chosen] { chosen = [flags] { return tokenize(flags->model, flags->special); }; });
}

void add_detokenize(CLI::App& app, Chosen& chosen) {
  auto model = std::make_shared<std::string>();
  CLI::App* command = app.add_subcommand("detokenize", "JSON arrays of token ids, one a line, to strings");
  add_model(*command, *model);
  command->footer("Example:\n  echo '[457,292]' | k3 detokenize bundled");
  command->callback([model, &chosen] { chosen = [model] { return detokenize(*model); }; });
}

}  // namespace k3::cli
