// `k3 bench`: its subcommands, and what they share.
#pragma once

#include <string>

#include "tools/command.hpp"

namespace k3::cli {

void add_bench_kernels(CLI::App& bench, Chosen& chosen);
void add_bench_io(CLI::App& bench, Chosen& chosen);
void add_bench_cache(CLI::App& bench, Chosen& chosen);
void add_bench_model(CLI::App& bench, Chosen& chosen);  // prefill, decode
void add_bench_grammar(CLI::App& bench, Chosen& chosen);
void add_bench_estimates(CLI::App& bench, Chosen& chosen);

// Tells on stderr what is going on, once it has lasted so long that one would wonder: on a terminal in one line that changes.
class BenchProgress {
 public:
  BenchProgress();
  BenchProgress(const BenchProgress&) = delete;
  BenchProgress& operator=(const BenchProgress&) = delete;
  ~BenchProgress();
  // `stage` changes seldom, `detail` often; where there is no terminal only a new stage is told.
  void tell(const std::string& stage, const std::string& detail);

 private:
  double begun_;
  bool terminal_, shown_ = false;
  std::string stage_;
};

}  // namespace k3::cli
