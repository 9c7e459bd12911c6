// `k3 verify`: is a checkpoint whole?
#include "model/checkpoint/verify.hpp"

#include <CLI/Option.hpp>
#include <CLI/Validators.hpp>
#include <cstdio>
#include <memory>
#include <string>

#include "model/compute_pool.hpp"
#include "model/text/tokenizer.hpp"
#include "tools/command.hpp"
#include "tools/common_flags.hpp"
#include "tools/session.hpp"

namespace k3::cli {
namespace {

struct Flags {
  std::string model, dirs;
  bool full = false;
  unsigned threads = 0;
};

int verify(const Flags& flags) {
  auto directory = find_model(flags.model);
  if (directory.has_error()) return report(directory.error());
  const unsigned threads = flags.threads != 0 ? flags.threads : usable_cores();
  const checkpoint::VerifyReport result =
      checkpoint::verify(*directory, flags.full, threads, show_progress("reading"), directories(flags.dirs));
  for (const Error& finding : result.findings) report(finding);
  // A checkpoint without its vocabulary cannot be served either.
  const auto tokenizer = text::Tokenizer::load(*directory);
  if (tokenizer.has_error()) report(tokenizer.error());
  if (result.findings_left_out != 0) report(std::to_string(result.findings_left_out) + " more findings");
  if (!result.clean() || tokenizer.has_error()) return exit_failed;
  std::string how = "; sizes and headers only, --full reads every byte";
  if (flags.full) how = ", every byte read";
  if (result.compared != 0) how += ", " + std::to_string(result.compared) + " tensors held against their checksums";
  std::printf("clean: %llu files, %llu tensors%s\n", static_cast<unsigned long long>(result.files),
              static_cast<unsigned long long>(result.tensors), how.c_str());
  return exit_ok;
}

}  // namespace

void add_verify(CLI::App& app, Chosen& chosen) {
  auto flags = std::make_shared<Flags>();
  CLI::App* command = app.add_subcommand("verify", "check a checkpoint: index, headers and sizes, on demand every byte");
  add_model(*command, flags->model);
  add_dirs(*command, flags->dirs);
  add_switch(*command, "--full", flags->full,
             "read all data: find values that no released tensor holds, and in a prepared container every byte that changed");
  command->add_option("--threads", flags->threads, "readers; default: one a core")->check(whole_number(1, 1024));
  command->footer("Examples:\n  k3 verify /models/kimi-k3\n  k3 verify /models/kimi-k3 --full");
  command->callback([flags, &chosen] { chosen = [flags] { return verify(*flags); }; });
}

}  // namespace k3::cli
