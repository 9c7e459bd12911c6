#include "tools/thinking_flags.hpp"

#include <CLI/Option.hpp>
#include <CLI/Validators.hpp>

#include "tools/common_flags.hpp"

namespace k3::cli {
namespace {

CLI::Validator as_think() {
  return {[](std::string& value) -> std::string {
            if (value == "1") value = "on";
            if (value == "0") value = "off";
            for (const char* known : {"on", "off", "low", "high", "max"}) {
              if (value == known) return {};
            }
            return "'" + value + "' is not one of on, off, low, high, max";
          },
          "{on,off,low,high,max}"};
}

}  // namespace

void add_think_flag(CLI::App& command, ThinkFlag& flag) {
  command.add_option("--think", flag.value, "on, off, or how much: low, high, max")->transform(as_think())->envname("K3_THINK");
}

void add_budget_flag(CLI::App& command, BudgetFlag& flag) {
  command
      .add_option("--reasoning-budget", flag.tokens,
                  "tokens of thinking, at most: then it is closed and the answer follows; 0: none. default: no limit")
      ->check(whole_number(0, 1U << 20));
}

void check_budget(const ThinkFlag& think, const BudgetFlag& budget) {
  if (budget.tokens && think.value == "off") throw usage_error("--reasoning-budget has no effect without thinking (--think off)");
}

}  // namespace k3::cli
