// --cache: where weights that were rounded at start are kept for the next one.
#pragma once

#include <filesystem>
#include <string>

#include "tools/command.hpp"

namespace k3::cli {

void add_cache_flag(CLI::App& command, std::string& where);
// The folder that `where` names for the model in `directory`; empty: nothing is kept. Error: there is no home to keep it in.
Result<std::filesystem::path> cache_root(const std::string& where, const std::filesystem::path& directory);

}  // namespace k3::cli
