// How much a model shall think, on the command line: at all, with which effort, and for how long at most.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "tools/command.hpp"

namespace k3::cli {

// "on", "off", "low", "high", "max", or empty: as the request or the model's default says.
struct ThinkFlag {
  std::string value;
};

// Tokens of thinking after which the answer follows; nullopt: no bound.
struct BudgetFlag {
  std::optional<std::size_t> tokens;
};

void add_think_flag(CLI::App& command, ThinkFlag& flag);
void add_budget_flag(CLI::App& command, BudgetFlag& flag);
// Throws a usage error where there is a budget of a thinking that is switched off.
void check_budget(const ThinkFlag& think, const BudgetFlag& budget);

}  // namespace k3::cli
