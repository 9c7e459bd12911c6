// `k3 synth`: a random checkpoint in the released layout, to measure and test with.
#include "model/checkpoint/synth.hpp"

#include <CLI/Option.hpp>
#include <CLI/Validators.hpp>
#include <cstdio>
#include <memory>
#include <string>

#include "tools/command.hpp"
#include "tools/common_flags.hpp"
#include "tools/session.hpp"

namespace k3::cli {
namespace {

struct Flags {
  std::string directory;
  checkpoint::SynthOptions options;
};

int synth(Flags& flags) {
  flags.options.directory = flags.directory;
  flags.options.progress = show_progress("writing");
  auto made = checkpoint::synthesize(flags.options);
  if (made.has_error()) return report(made.error());
  std::printf("wrote %s\n", flags.directory.c_str());
  return exit_ok;
}

}  // namespace

void add_synth(CLI::App& app, Chosen& chosen) {
  auto flags = std::make_shared<Flags>();
  CLI::App* command = app.add_subcommand("synth", "a random checkpoint in the released layout, to measure and test with");
  command->add_option("DIR", flags->directory, "where to; made if need be, must be empty")->required();
  command->add_option("--layers", flags->options.layers, "layers")->required()->check(whole_number(1, 1024));
  command->add_option("--experts", flags->options.experts, "experts a layer")->required()->check(whole_number(1, 65536));
  add_switch(*command, "--tiny", flags->options.tiny, "widths of a few dozen instead of the released ones");
  command->add_option("--vocab", flags->options.vocabulary, "entries of the vocabulary; default: as released, or 512 with --tiny")
      ->check(whole_number(512, 1U << 22));
  command->add_option("--seed", flags->options.seed, "another seed, other bytes")
      ->check(whole_number(0, UINT64_MAX))
      ->capture_default_str();
  command->footer(
      "At the released widths a layer takes 1.3 GB and 17.5 MB an expert.\n"
      "Examples:\n"
      "  k3 synth /tmp/toy --layers 6 --experts 16 --tiny\n"
      "  k3 synth /data/slice --layers 2 --experts 64");
  command->callback([flags, &chosen] { chosen = [flags] { return synth(*flags); }; });
}

}  // namespace k3::cli
