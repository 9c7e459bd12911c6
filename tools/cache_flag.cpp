#include "tools/cache_flag.hpp"

#include <CLI/Option.hpp>
#include <CLI/Validators.hpp>
#include <cstdlib>

namespace k3::cli {

namespace {

CLI::Validator check_where() {
  return {[](std::string& value) -> std::string {
            // A bare word may be meant for one of ours: a directory is told by a slash.
            if (value == "beside" || value == "user" || value.find('/') != std::string::npos) return {};
            return "'" + value + "' is neither `beside` nor `user` nor a directory (write ./" + value + ")";
          },
          "{beside,user,DIR}"};
}

const char* set_variable(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr && *value != '\0' ? value : nullptr;
}

}  // namespace

void add_cache_flag(CLI::App& command, std::string& where) {
  command
      .add_option("--cache", where,
                  "keep weights that are rounded at start for the next one: `beside` the model's directory, in the `user`'s "
                  "cache ($XDG_CACHE_HOME), or in a directory")
      ->check(check_where())
      ->envname("K3_CACHE")
      ->group("Engine");
}

Result<std::filesystem::path> cache_root(const std::string& where, const std::filesystem::path& directory) {
  if (where == "beside") {
    std::error_code failed;
    const auto real = std::filesystem::canonical(directory, failed);
    return (failed ? std::filesystem::absolute(directory) : real).parent_path() / "k3-cache";
  }
  if (where != "user") return std::filesystem::path(where);
  // The XDG rule: a value that is not absolute is not set.
  if (const char* cache = set_variable("XDG_CACHE_HOME"); cache != nullptr && *cache == '/')
    return std::filesystem::path(cache) / "k3";
  if (const char* home = set_variable("HOME")) return std::filesystem::path(home) / ".cache" / "k3";
  return fail(ErrorCode::invalid_argument, "--cache user: neither XDG_CACHE_HOME nor HOME says where; name a directory instead");
}

}  // namespace k3::cli
