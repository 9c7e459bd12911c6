// `k3 bench cache`: recorded expert choices, replayed against caches of several sizes.
#include <fmt/format.h>

#include <CLI/Option.hpp>
#include <algorithm>
#include <memory>
#include <set>

#include "model/cache_replay.hpp"
#include "tools/bench.hpp"
#include "tools/common_flags.hpp"
#include "tools/input_output.hpp"
#include "tools/route_trace.hpp"

namespace k3::cli {
namespace {

// Of the released model: w1, w2 and w3 of 3,072 x 3,584 in MXFP4, 17 bytes for 32 weights.
constexpr double released_expert_bytes = 3.0 * 3072 * 3584 * 17 / 32;

struct Flags {
  std::string trace;
  std::vector<std::size_t> slots;
  bool json = false;
};

struct Line {
  std::size_t slots = 0;
  std::vector<double> hits;  // of each policy, a share
};

// From a quarter of what a token asks for to all that was asked for.
std::vector<std::size_t> sizes(const Routes& routes) {
  std::set<std::pair<std::size_t, std::uint32_t>> different;
  for (std::size_t i = 0; i < routes.ids.size(); ++i) different.insert({i / routes.per_token % routes.layers, routes.ids[i]});
  const std::size_t token = routes.layers * routes.per_token, all = different.size();
  std::vector<std::size_t> out;
  for (const std::size_t quarters : {1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 64}) {
    if (const std::size_t slots = std::max<std::size_t>(1, token * quarters / 4); slots < all) out.push_back(slots);
  }
  out.push_back(all);
  return out;
}

// Of the experts at each rank, the share that the next token chose again.
std::vector<double> repeated_by_rank(const Routes& routes) {
  std::vector<double> share(routes.per_token);
  for (std::size_t token = 0; token + 1 < routes.tokens(); ++token) {
    for (std::size_t layer = 0; layer < routes.layers; ++layer) {
      const auto now = routes.at(token, layer), next = routes.at(token + 1, layer);
      for (std::size_t rank = 0; rank < routes.per_token; ++rank) {
        share[rank] += std::find(next.begin(), next.end(), now[rank]) != next.end() ? 1 : 0;
      }
    }
  }
  for (double& rank : share) rank /= static_cast<double>(std::max<std::size_t>(routes.tokens() - 1, 1) * routes.layers);
  return share;
}

std::vector<Line> replay(const Flags& flags, const Routes& routes, std::size_t experts) {
  BenchProgress progress;
  std::vector<Line> lines;
  for (const std::size_t slots : flags.slots.empty() ? sizes(routes) : flags.slots) {
    Line line{slots, {}};
    for (const CachePolicy& policy : cache_policies()) {
      progress.tell("replaying", fmt::format("{} slots, {}", slots, policy.name));
      const std::size_t hits = policy.hits(routes, experts, std::min(slots, routes.layers * experts));
      line.hits.push_back(static_cast<double>(hits) / static_cast<double>(routes.ids.size()));
    }
    lines.push_back(std::move(line));
  }
  return lines;
}

std::string as_json(const Routes& routes, std::size_t experts, const std::vector<Line>& lines) {
  std::string out;
  json::Writer writer(out);
  writer.begin_object().key("tokens").integer(static_cast<std::int64_t>(routes.tokens()));
  writer.key("layers").integer(static_cast<std::int64_t>(routes.layers));
  writer.key("experts").integer(static_cast<std::int64_t>(experts));
  writer.key("repeated_by_rank").begin_array();
  for (const double share : repeated_by_rank(routes)) writer.number(share);
  writer.end_array().key("results").begin_array();
  for (const Line& line : lines) {
    writer.begin_object().key("slots").integer(static_cast<std::int64_t>(line.slots));
    for (std::size_t i = 0; i < line.hits.size(); ++i) writer.key(cache_policies()[i].name).number(line.hits[i]);
    writer.end_object();
  }
  writer.end_array().end_object();
  return out + "\n";
}

void print_table(const Routes& routes, const std::vector<Line>& lines) {
  fmt::print("{} tokens, {} layers, {} experts of each; found in memory:\n\n", routes.tokens(), routes.layers, routes.per_token);
  fmt::print("{:>9}{:>10}", "slots", "GB");
  for (const CachePolicy& policy : cache_policies()) fmt::print("{:>12}", policy.name);
  fmt::print("\n");
  for (const Line& line : lines) {
    fmt::print("{:>9}{:>10.1f}", line.slots, static_cast<double>(line.slots) * released_expert_bytes / 1e9);
    for (const double share : line.hits) fmt::print("{:>10.1f} %", 100 * share);
    fmt::print("\n");
  }
  fmt::print("\n");
  for (const CachePolicy& policy : cache_policies()) fmt::print("{:>12}  {}\n", policy.name, policy.what);
  fmt::print("\nchosen again by the next token, from the heaviest expert to the lightest:\n ");
  for (const double share : repeated_by_rank(routes)) fmt::print(" {:.0f} %", 100 * share);
  fmt::print("\n");
}

int bench_cache(const Flags& flags) {
  const auto routes = read_routes(flags.trace);
  if (routes.has_error()) return report(routes.error());
  const std::size_t experts = *std::max_element(routes->ids.begin(), routes->ids.end()) + std::size_t{1};
  const std::vector<Line> lines = replay(flags, *routes, experts);
  if (!flags.json) {
    print_table(*routes, lines);
    return exit_ok;
  }
  const auto written = write_out(as_json(*routes, experts, lines));
  return written.has_error() ? report(written.error()) : int{exit_ok};
}

}  // namespace

void add_bench_cache(CLI::App& bench, Chosen& chosen) {
  auto flags = std::make_shared<Flags>();
  CLI::App* command = bench.add_subcommand("cache", "recorded expert choices against caches of several sizes and policies");
  command->add_option("TRACE", flags->trace, "choices as `k3 logits --routes` records them")->required();
  command->add_option("--slots", flags->slots, "experts that fit into memory, of all layers; default: several sizes")
      ->delimiter(',')
      ->check(whole_number(1, 1U << 24));
  command->add_flag("--json", flags->json, "one object instead of a table");
  command->footer(
      "GB is what so many experts of the released model take.\n"
      "Example:\n"
      "  k3 logits bundled --ids 1539,349,372,1280 --routes routes.json\n"
      "  k3 bench cache routes.json");
  command->callback([flags, &chosen] { chosen = [flags] { return bench_cache(*flags); }; });
}

}  // namespace k3::cli
