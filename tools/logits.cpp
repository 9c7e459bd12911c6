// `k3 logits`: the raw numbers of a run over given ids, for comparing engines.
#include <CLI/Option.hpp>
#include <bit>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>

#include "model/run_ids.hpp"
#include "tools/command.hpp"
#include "tools/common_flags.hpp"
#include "tools/input_output.hpp"
#include "tools/route_trace.hpp"
#include "tools/session.hpp"

namespace k3::cli {
namespace {

static_assert(std::endian::native == std::endian::little, "the files are little-endian and written as they lie in memory");

struct Flags {
  EngineFlags engine;
  std::string ids, out, hidden, inject, trace, routes;
};

Result<void> write_bytes(const std::string& path, std::string_view bytes) {
  const auto failed = [&] {
    Error error = fail(ErrorCode::io, std::string("cannot write: ") + std::strerror(errno));
    error.file = path;
    return error;
  };
  std::FILE* file = std::fopen(path.c_str(), "wb");
  if (file == nullptr) return failed();
  const bool whole = std::fwrite(bytes.data(), 1, bytes.size(), file) == bytes.size();
  if (std::fclose(file) != 0 || !whole) return failed();
  return {};
}

Result<void> write_floats(const std::string& path, std::span<const float> values) {
  return write_bytes(path, {reinterpret_cast<const char*>(values.data()), values.size_bytes()});
}

// Rows for the first layer, instead of embeddings: [tokens, hidden].
Result<std::vector<float>> read_rows(const std::string& path, std::size_t tokens, std::size_t hidden) {
  auto bytes = read_all(path);
  if (bytes.has_error()) return bytes.error();
  if (bytes->size() != tokens * hidden * sizeof(float)) {
    Error error = fail(ErrorCode::invalid_argument, "--inject: the file does not hold one row a token");
    error.file = path;
    error.expected = std::to_string(tokens) + " tokens x " + std::to_string(hidden) +
                     " floats = " + std::to_string(tokens * hidden * sizeof(float)) + " bytes";
    error.got = std::to_string(bytes->size()) + " bytes";
    return error;
  }
  std::vector<float> rows(tokens * hidden);
  std::memcpy(rows.data(), bytes->data(), bytes->size());
  return rows;
}

// Without --ids the injected rows say how many tokens there are; their ids are not used, since the rows stand for them.
Result<std::vector<std::int32_t>> ids_for(const Flags& flags, std::size_t hidden) {
  if (!flags.ids.empty()) return parse_ids(flags.ids);
  auto bytes = read_all(flags.inject);
  if (bytes.has_error()) return bytes.error();
  return std::vector<std::int32_t>(bytes->size() / (hidden * sizeof(float)));
}

int logits(const Flags& flags) {
  auto options = model_options(flags.engine);
  if (options.has_error()) return report(options.error());
  show_load_progress(*options);
  auto model = load_model(*options);
  if (model.has_error()) return report(model.error());
  const std::size_t hidden = (*model)->checkpoint.config().hidden;

  auto ids = ids_for(flags, hidden);
  if (ids.has_error()) return report(ids.error());
  std::vector<float> rows;
  RunIdsOptions run;
  if (!flags.inject.empty()) {
    auto read = read_rows(flags.inject, ids->size(), hidden);
    if (read.has_error()) return report(read.error());
    rows = std::move(read).value();
    run.inject = rows;
  }
  run.want_hidden = !flags.hidden.empty() || !flags.trace.empty();
  run.want_routes = !flags.routes.empty();
  auto result = run_ids(**model, *ids, run);
  if (result.has_error()) return report(result.error());

  for (const auto& [path, values] : {std::pair<const std::string&, const std::vector<float>&>{flags.out, result->logits},
                                     {flags.hidden, result->hidden},
                                     {flags.trace, result->hidden}}) {
    if (path.empty()) continue;
    if (auto written = write_floats(path, values); written.has_error()) return report(written.error());
  }
  if (!flags.routes.empty()) {
    const auto written = write_bytes(flags.routes, routes_as_json(result->routes));
    if (written.has_error()) return report(written.error());
  }
  return exit_ok;
}

}  // namespace

void add_logits(CLI::App& app, Chosen& chosen) {
  auto flags = std::make_shared<Flags>();
  CLI::App* command = app.add_subcommand("logits", "raw logits and hidden states of given token ids");
  add_engine_flags(*command, flags->engine);
  command->add_option("--ids", flags->ids, "token ids, such as 12,7,1541");
  command->add_option("--out", flags->out, "file for the logits, float32 [tokens, vocabulary]");
  command->add_option("--hidden", flags->hidden, "file for the running sum after every layer, float32 [layers, tokens, hidden]");
  command->add_option("--trace", flags->trace, "the same as --hidden")->envname("K3_TRACE");
  command->add_option("--routes", flags->routes, "file for the experts each token chose, JSON: see `k3 bench cache`");
  command
      ->add_option("--inject", flags->inject,
                   "file with the rows the first layer gets instead of embeddings, float32 [tokens, hidden]")
      ->envname("K3_X0");
  command->footer(
      "Files are raw and little-endian.\n"
      "Example:\n  k3 logits bundled --ids 1539,349,372 --out logits.f32 --hidden hidden.f32 --chunk 7");
  command->callback([flags, &chosen] {
    check_ids(flags->ids);
    if (flags->ids.empty() && flags->inject.empty()) throw usage_error("--ids is required (or --inject)");
    if (flags->out.empty() && flags->hidden.empty() && flags->trace.empty() && flags->routes.empty())
      throw usage_error("--out is required (or --hidden, --trace, --routes)");
    chosen = [flags] { return logits(*flags); };
  });
}

}  // namespace k3::cli
