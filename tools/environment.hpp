// Environment variables stand for flags. They stay set for a whole shell, so a command meets some it has no flag for: it says so in
// a line instead of letting them look as if they worked.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "tools/command.hpp"

namespace k3::cli {

// The variables that are set, and that the chosen command has no flag for.
class OtherVariables {
 public:
  // Before parsing: takes from the parser, which would read them for every command, all variables but those of the command that
  // `arguments` begin with.
  OtherVariables(CLI::App& app, const std::vector<std::string>& arguments);
  // After parsing: a line for each. Throws a usage error where a value would be wrong for any command.
  std::vector<std::string> warnings() const;

 private:
  std::string command_;
  std::vector<std::pair<std::string, CLI::Option*>> found_;  // and a flag that it stands for
};

// " (from the environment variable K3_BITS)" where `message` speaks of a flag whose value came from there, else empty: there is no
// such flag on the line the user typed.
std::string where_from(const CLI::App& app, const std::string& message, const std::vector<std::string>& arguments);

}  // namespace k3::cli
