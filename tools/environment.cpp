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

}  // namespace

OtherVariables::OtherVariables(CLI::App& app, std::string command) : command_(std::move(command)) {
  std::map<std::string, CLI::Option*> others;
  std::set<std::string> own;
  for (CLI::App* candidate : app.get_subcommands([](CLI::App*) { return true; })) {
    for (CLI::Option* option : candidate->get_options()) {
      const std::string variable = option->get_envname();
      if (value_of(variable).empty()) continue;
      if (candidate->get_name() == command_) {
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
  }
  return "";
}

}  // namespace k3::cli
