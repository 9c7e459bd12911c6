// `k3 bench`: what this build does, as a share of what this machine could do in the same minute.
#include "tools/bench.hpp"

#include <unistd.h>

#include <cstdio>

#include "tools/bench_machine.hpp"

namespace k3::cli {

namespace {
constexpr double patience = 2;  // seconds
}  // namespace

BenchProgress::BenchProgress() : begun_(seconds_now()), terminal_(::isatty(STDERR_FILENO) == 1) {}

BenchProgress::~BenchProgress() {
  if (shown_ && terminal_) std::fputs("\r\033[K", stderr);
}

void BenchProgress::tell(const std::string& stage, const std::string& detail) {
  if (seconds_now() - begun_ < patience) return;
  if (terminal_) {
    std::fprintf(stderr, "\r\033[K%s: %s", stage.c_str(), detail.c_str());
    std::fflush(stderr);
  } else if (stage != stage_) {
    std::fprintf(stderr, "k3: bench: %s\n", stage.c_str());
  }
  shown_ = true;
  stage_ = stage;
}

void add_bench(CLI::App& app, Chosen& chosen) {
  CLI::App* bench = app.add_subcommand("bench", "measure kernels, reads and the model against this machine's own limits");
  add_bench_kernels(*bench, chosen);
  add_bench_io(*bench, chosen);
  add_bench_model(*bench, chosen);
  add_bench_cache(*bench, chosen);
  add_bench_grammar(*bench, chosen);
  add_bench_estimates(*bench, chosen);
  bench->allow_extras();  // only now: the subcommands would inherit it
  bench->callback([bench] {
    if (!bench->get_subcommands().empty() && bench->remaining().empty()) return;
    const std::string known = "there are: kernels, io, prefill, decode, cache, grammar, estimates";
    if (bench->remaining().empty()) throw usage_error("bench needs a subcommand; " + known);
    throw usage_error("there is no '" + bench->remaining().front() + "' to bench; " + known);
  });
  bench->footer(
      "A ratio is the time that the machine's limits allow, divided by the time taken: 1 is as good as can be.\n"
      "Limits are measured in the same run, because a shared machine has others every minute.\n"
      "Examples:\n"
      "  k3 bench kernels --rows 1,32\n"
      "  k3 bench io /models/kimi-k3\n"
      "  k3 bench decode bundled --tokens 32 --json");
}

}  // namespace k3::cli
