#include "tools/input_output.hpp"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <limits>

#include "tools/common_flags.hpp"

namespace k3::cli {

Result<std::string> read_all(const std::string& path) {
  const bool standard = path == "-";
  std::FILE* file = standard ? stdin : std::fopen(path.c_str(), "rb");
  if (file == nullptr) {
    Error error = fail(ErrorCode::io, std::strerror(errno));
    error.file = path;
    return error;
  }
  std::string text;
  char buffer[1 << 16];
  while (const std::size_t got = std::fread(buffer, 1, sizeof buffer, file)) text.append(buffer, got);
  const int broken = std::ferror(file) != 0 ? errno : 0;
  if (!standard) std::fclose(file);
  if (broken != 0) {
    Error error = fail(ErrorCode::io, std::string("cannot read: ") + std::strerror(broken));
    error.file = standard ? "standard input" : path;
    return error;
  }
  return text;
}

Result<text::Tokenizer> load_tokenizer(const std::string& model) {
  auto directory = find_model(model);
  if (directory.has_error()) return directory.error();
  return text::Tokenizer::load(*directory);
}

Result<void> write_out(const std::string& text) {
  errno = 0;
  // The flag remembers a write that failed earlier, of which printf's callers take no notice.
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0 || std::ferror(stdout) != 0) {
    if (errno == 0) return fail(ErrorCode::io, "cannot write the output");
    return fail(ErrorCode::io, std::string("cannot write the output: ") + std::strerror(errno));
  }
  return {};
}

Result<std::vector<text::TokenId>> ids_of(const json::Value& value) {
  if (!value.is_array()) return fail(ErrorCode::invalid_argument, "expected an array of token ids");
  std::vector<text::TokenId> ids;
  ids.reserve(value.items.size());
  for (const json::Value& item : value.items) {
    auto id = item.as_int();
    if (id.has_error()) return id.error();
    if (*id < 0 || *id > std::numeric_limits<text::TokenId>::max()) {
      return fail(ErrorCode::invalid_argument, "no token has the id " + std::to_string(*id));
    }
    ids.push_back(static_cast<text::TokenId>(*id));
  }
  return ids;
}

void write_ids(json::Writer& writer, const std::vector<text::TokenId>& ids) {
  writer.begin_array();
  for (const text::TokenId id : ids) writer.integer(id);
  writer.end_array();
}

}  // namespace k3::cli
