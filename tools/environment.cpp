#include "tools/environment.hpp"

#include <CLI/Option.hpp>
#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <map>
#include <set>

namespace k3::cli {
namespace {

// Empty counts as not set, as the parser has it.
std::string value_of(const std::string& variable) {
  const char* value = variable.empty() ? nullptr : std::getenv(variable.c_str());
  return value == nullptr ? "" : value;
}

std::string named(const std::string& variable) { return " (from the environment variable " + variable + ")"; }

// `--vulkan` is not spoken of in "--vulkan-gb".
bool speaks_of(const std::string& message, const std::string& flag) {
  for (std::size_t at = message.find(flag); at != std::string::npos; at = message.find(flag, at + 1)) {
    const std::size_t end = at + flag.size();
    if (end == message.size() || (message[end] != '-' && std::isalnum(static_cast<unsigned char>(message[end])) == 0)) return true;
  }
  return false;
}

std::vector<CLI::App*> subcommands(CLI::App& app) {
  return app.get_subcommands([](CLI::App*) { return true; });
}

std::vector<CLI::App*> all_commands(CLI::App& app) {
  std::vector<CLI::App*> found;
  for (CLI::App* command : subcommands(app)) {
    found.push_back(command);
    const std::vector<CLI::App*> below = all_commands(*command);
    found.insert(found.end(), below.begin(), below.end());
  }
  return found;
}

// `bench decode` is two: the command and what it is to do. `name` gets the words.
std::set<CLI::App*> chosen_commands(CLI::App& app, const std::vector<std::string>& arguments, std::string& name) {
  std::set<CLI::App*> chosen;
  CLI::App* at = &app;
  for (const std::string& word : arguments) {
    const std::vector<CLI::App*> below = subcommands(*at);
    const auto next =
        std::find_if(below.begin(), below.end(), [&](const CLI::App* command) { return command->get_name() == word; });
    if (next == below.end()) break;
    at = *next;
    chosen.insert(at);
    name += (name.empty() ? "" : " ") + word;
  }
  return chosen;
}

}  // namespace

OtherVariables::OtherVariables(CLI::App& app, const std::vector<std::string>& arguments) {
  const std::set<CLI::App*> chosen = chosen_commands(app, arguments, command_);
  std::map<std::string, CLI::Option*> others;
  std::set<std::string> own;
  for (CLI::App* candidate : all_commands(app)) {
    for (CLI::Option* option : candidate->get_options()) {
      const std::string variable = option->get_envname();
      if (value_of(variable).empty()) continue;
      if (chosen.contains(candidate)) {
        own.insert(variable);
      } else {
        others[variable] = option;
        option->envname("");
      }
    }
  }
  for (const auto& other : others) {
    if (!own.contains(other.first)) found_.push_back(other);
  }
}

std::vector<std::string> OtherVariables::warnings() const {
  std::vector<std::string> lines;
  for (const auto& [variable, option] : found_) {
    try {
      option->add_result(value_of(variable))->run_callback();
    } catch (const CLI::Error& error) {
      const std::string message = error.what();
      throw usage_error(message + (speaks_of(message, variable) ? "" : named(variable)));
    }
    lines.push_back(variable + " is set and has no effect on `k3 " + command_ + "`");
  }
  return lines;
}

std::string where_from(const CLI::App& app, const std::string& message, const std::vector<std::string>& arguments) {
  for (const CLI::App* command : app.get_subcommands()) {
    for (const CLI::Option* option : command->get_options()) {
      const std::string flag = option->get_name();
      if (value_of(option->get_envname()).empty() || !speaks_of(message, flag)) continue;
      const auto typed = [&](const std::string& argument) { return argument == flag || argument.starts_with(flag + "="); };
      if (std::none_of(arguments.begin(), arguments.end(), typed)) return named(option->get_envname());
    }
    if (std::string said = where_from(*command, message, arguments); !said.empty()) return said;
  }
  return "";
}

}  // namespace k3::cli
