// `k3 bench grammar`: how long it takes to say which tokens may come next, on walks through several schemas.
#include <fmt/format.h>

#include <CLI/Option.hpp>
#include <algorithm>
#include <bit>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "model/grammar/grammar.hpp"
#include "model/grammar/json_schema.hpp"
#include "model/grammar/matcher.hpp"
#include "tools/bench.hpp"
#include "tools/bench_grammar_cases.hpp"
#include "tools/bench_machine.hpp"
#include "tools/common_flags.hpp"
#include "tools/input_output.hpp"

namespace k3::cli {
namespace {

struct Flags {
  std::size_t tokens = 200;
  bool json = false;
};

struct Line {
  std::string name;
  double compile = 0;           // seconds
  std::vector<double> masks;    // seconds, one a token
  std::vector<double> accepts;  // seconds
};

grammar::TokenId random_allowed(std::span<const std::uint64_t> mask, BenchRandom& random) {
  std::size_t count = 0;
  for (const std::uint64_t word : mask) count += static_cast<std::size_t>(std::popcount(word));
  if (count == 0) return -1;
  std::size_t chosen = random.below(count);
  for (std::size_t i = 0; i < mask.size(); ++i) {
    const auto here = static_cast<std::size_t>(std::popcount(mask[i]));
    if (chosen >= here) {
      chosen -= here;
      continue;
    }
    std::uint64_t word = mask[i];
    for (; chosen > 0; --chosen) word &= word - 1;
    return static_cast<grammar::TokenId>(i * 64 + static_cast<std::size_t>(std::countr_zero(word)));
  }
  return -1;
}

// Documents at random, one after the other, until so many tokens were taken; each begins with nothing worked out.
void walk(const std::shared_ptr<const grammar::Grammar>& grammar, const std::shared_ptr<const grammar::TokenTrie>& trie,
          std::size_t tokens, Line& line) {
  BenchRandom random(7);
  while (line.masks.size() < tokens) {
    grammar::Matcher matcher(grammar, trie);
    while (line.masks.size() < tokens) {
      const double begun = seconds_now();
      const auto mask = matcher.allowed();
      line.masks.push_back(seconds_now() - begun);
      const grammar::TokenId id = random_allowed(mask, random);
      if (id < 0) break;
      const double accepting = seconds_now();
      matcher.accept(id);
      line.accepts.push_back(seconds_now() - accepting);
    }
  }
}

void keep_least(std::vector<double>& kept, const std::vector<double>& times) {
  if (kept.empty()) kept = times;
  for (std::size_t i = 0; i < times.size(); ++i) kept[i] = std::min(kept[i], times[i]);
}

Result<Line> measure(const GrammarCase& bench_case, const std::shared_ptr<const grammar::TokenTrie>& trie, std::size_t tokens) {
  const auto schema = json::parse(bench_case.schema);
  if (!schema) return schema.error();
  Line line{bench_case.name, 0, {}, {}};
  const double begun = seconds_now();
  grammar::Rules rules;
  const auto root = grammar::from_json_schema(*schema, rules);
  if (!root) return fail(ErrorCode::internal, bench_case.name + ": " + root.error().path + ": " + root.error().message);
  const auto compiled = grammar::compile(rules, *root);
  if (!compiled) return compiled.error();
  line.compile = seconds_now() - begun;
  // The same walk several times: what the machine did meanwhile does not hit the same token each time.
  constexpr int rounds = 5;
  for (int round = 0; round < rounds; ++round) {
    Line again;
    walk(*compiled, trie, tokens, again);
    keep_least(line.masks, again.masks);
    keep_least(line.accepts, again.accepts);
  }
  return line;
}

std::string as_json(double trie_seconds, const std::vector<Line>& lines) {
  std::string out;
  json::Writer writer(out);
  writer.begin_object()
      .key("vocabulary")
      .integer(static_cast<std::int64_t>(bench_vocabulary))
      .key("trie_seconds")
      .number(trie_seconds);
  writer.key("results").begin_array();
  for (const Line& line : lines) {
    writer.begin_object().key("schema").string(line.name).key("compile_seconds").number(line.compile);
    writer.key("mask_median_seconds").number(median(line.masks));
    writer.key("mask_worst_seconds").number(*std::max_element(line.masks.begin(), line.masks.end()));
    writer.key("accept_worst_seconds")
        .number(line.accepts.empty() ? 0 : *std::max_element(line.accepts.begin(), line.accepts.end()));
    writer.end_object();
  }
  writer.end_array().end_object();
  return out + "\n";
}

void print_table(double trie_seconds, const std::vector<Line>& lines) {
  fmt::print("{} ids; their trie is made once, in {:.0f} ms\n\n", bench_vocabulary, 1e3 * trie_seconds);
  fmt::print("{:<28}{:>14}{:>14}{:>14}{:>14}\n", "schema", "compile ms", "mask median", "mask worst", "accept worst");
  for (const Line& line : lines) {
    const double accept = line.accepts.empty() ? 0 : *std::max_element(line.accepts.begin(), line.accepts.end());
    fmt::print("{:<28}{:>14.2f}{:>11.3f} ms{:>11.3f} ms{:>11.3f} ms\n", line.name, 1e3 * line.compile, 1e3 * median(line.masks),
               1e3 * *std::max_element(line.masks.begin(), line.masks.end()), 1e3 * accept);
  }
}

int bench_grammar(const Flags& flags) {
  BenchProgress progress;
  const std::vector<std::string> spellings = bench_spellings();
  const std::vector<std::string_view> views(spellings.begin(), spellings.end());
  const double begun = seconds_now();
  const auto trie = grammar::TokenTrie::of(views);
  const double trie_seconds = seconds_now() - begun;
  std::vector<Line> lines;
  for (const GrammarCase& bench_case : grammar_cases()) {
    progress.tell("walking", bench_case.name);
    auto line = measure(bench_case, trie, flags.tokens);
    if (!line) return report(line.error());
    lines.push_back(std::move(*line));
  }
  if (!flags.json) {
    print_table(trie_seconds, lines);
    return exit_ok;
  }
  const auto written = write_out(as_json(trie_seconds, lines));
  return written.has_error() ? report(written.error()) : int{exit_ok};
}

}  // namespace

void add_bench_grammar(CLI::App& bench, Chosen& chosen) {
  auto flags = std::make_shared<Flags>();
  CLI::App* command = bench.add_subcommand("grammar", "time to say which tokens a JSON schema allows next");
  command->add_option("--tokens", flags->tokens, "tokens to walk in each schema")
      ->check(whole_number(1, 100000))
      ->capture_default_str();
  command->add_flag("--json", flags->json, "one object instead of a table");
  command->footer(
      "Each walk is taken five times, and the shortest time of each token counts; nothing is kept from one walk to the next.\n"
      "The vocabulary is made up: as many ids as the released model has, of lengths like its own.\n"
      "Example:\n"
      "  k3 bench grammar --tokens 500");
  command->callback([flags, &chosen] { chosen = [flags] { return bench_grammar(*flags); }; });
}

}  // namespace k3::cli
