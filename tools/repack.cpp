// `k3 repack`: a checkpoint rewritten as a prepared container.
#include "model/checkpoint/repack.hpp"

#include <CLI/Option.hpp>
#include <CLI/Validators.hpp>
#include <algorithm>
#include <charconv>
#include <cstdio>
#include <memory>
#include <string>

#include "tools/command.hpp"
#include "tools/common_flags.hpp"
#include "tools/session.hpp"

namespace k3::cli {
namespace {

struct Flags {
  std::string source, destination, shards, dirs;
  std::string bits = "8", mla_bits, head_bits;
  bool trunk_only = false, verify_full = false;
};

CLI::Validator one_of_the_bits() {
  return {[](std::string& value) -> std::string {
            if (value == "4" || value == "8" || value == "16") return {};
            return "'" + value + "' is not one of 4, 8, 16";
          },
          "{4,8,16}"};
}

checkpoint::Precision precision_of(const std::string& bits) {
  return bits == "4" ? checkpoint::Precision::int4 : bits == "8" ? checkpoint::Precision::int8 : checkpoint::Precision::bf16;
}

// "3-17", or "5" for one.
bool parse_range(const std::string& text, std::size_t& first, std::size_t& last) {
  const std::size_t dash = text.find('-');
  const auto number = [](const std::string& digits, std::size_t& to) {
    const char* end = digits.data() + digits.size();
    const auto [stopped, status] = std::from_chars(digits.data(), end, to);
    return status == std::errc{} && stopped == end && digits[0] != '0';
  };
  if (!number(text.substr(0, dash), first)) return false;
  if (dash != std::string::npos) return number(text.substr(dash + 1), last) && last >= first;
  last = first;
  return true;
}

int repack(const Flags& flags, checkpoint::RepackOptions options) {
  if (flags.destination.empty()) throw usage_error("DST is empty: it is the directory that the container is made in");
  auto source = find_model(flags.source);
  if (source.has_error()) return report(source.error());
  options.source = std::move(source).value();
  options.source_directories = directories(flags.dirs);
  options.destination = flags.destination;
  const std::string at_least_8 = flags.bits == "16" ? "16" : "8";
  options.precision = {precision_of(flags.bits), precision_of(flags.mla_bits.empty() ? at_least_8 : flags.mla_bits),
                       precision_of(flags.head_bits.empty() ? at_least_8 : flags.head_bits)};
  options.contents = flags.trunk_only ? checkpoint::Contents::trunk : checkpoint::Contents::all;
  options.compare = flags.verify_full;
  options.progress = show_progress("writing");
  options.compare_progress = show_progress("comparing");
  const auto made = checkpoint::repack(options);
  if (made.has_error()) return report(made.error());
  std::printf("%zu shards written, %zu were there already%s\n", made->written, made->found,
              flags.verify_full ? ", all compared with the source" : "");
  if (made->missing == 0) {
    std::printf("complete: %s\n", flags.destination.c_str());
  } else {
    std::printf("%zu of %zu shards are still to be made; the index follows with the last\n", made->missing, made->shards);
  }
  return exit_ok;
}

}  // namespace

void add_repack(CLI::App& app, Chosen& chosen) {
  auto flags = std::make_shared<Flags>();
  CLI::App* command =
      app.add_subcommand("repack", "write a prepared container: weights rounded once, experts in order, fast to load");
  command->add_option("SRC", flags->source, "the checkpoint's directory, or `bundled`")->required();
  command->add_option("DST", flags->destination, "where to; made if need be, must be empty or a container begun earlier")
      ->required();
  add_dirs(*command, flags->dirs);
  command->add_option("--bits", flags->bits, "of the weights that are not experts; 16: as released")
      ->check(one_of_the_bits())
      ->envname("K3_BITS")
      ->capture_default_str();
  command->add_option("--mla-bits", flags->mla_bits, "the same of latent attention; default: those of --bits, at least 8")
      ->check(one_of_the_bits())
      ->envname("K3_MLA_BITS");
  command->add_option("--head-bits", flags->head_bits, "the same of the output head; default: those of --bits, at least 8")
      ->check(one_of_the_bits())
      ->envname("K3_HEAD_BITS");
  command->add_option("--shards", flags->shards, "make only these shards of the container, such as 1-40; others in other runs");
  add_switch(*command, "--trunk-only", flags->trunk_only,
             "leave the experts where they are: DST is then served together with SRC, by --dirs SRC");
  add_switch(*command, "--verify-full", flags->verify_full,
             "read every byte of these shards again, and compare it with the source");
  command->footer(
      "Experts are copied byte for byte. The container serves like its source, with the same bits in every answer as the source at "
      "the\n"
      "same --bits. A run that was interrupted goes on where it was when started again.\n"
      "Examples:\n"
      "  k3 repack /models/kimi-k3 /fast/kimi-k3-int8\n"
      "  k3 repack /models/kimi-k3 /fast/kimi-k3-trunk --trunk-only && k3 serve /fast/kimi-k3-trunk --dirs /models/kimi-k3\n"
      "  k3 repack /models/kimi-k3 /fast/kimi-k3-int4 --bits 4 --shards 1-40 --verify-full");
  command->callback([flags, &chosen] {
    checkpoint::RepackOptions options;
    if (!flags->shards.empty() && !parse_range(flags->shards, options.first_shard, options.last_shard))
      throw usage_error("--shards: '" + flags->shards + "' is no range of shards such as 3-17, counted from 1");
    chosen = [flags, options] { return repack(*flags, options); };
  });
}

}  // namespace k3::cli
