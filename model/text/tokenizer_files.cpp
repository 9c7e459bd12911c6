#include "model/text/tokenizer_files.hpp"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <fstream>

#include "model/text/json.hpp"

namespace k3::text {

namespace {

Error in_config(const std::string& file, const std::string& where, std::string what) {
  Error error = fail(ErrorCode::corrupt, where + ": " + std::move(what));
  error.file = file;
  return error;
}

// Stores one member of added_tokens_decoder in `names`.
Result<void> take_name(const json::Member& member, const std::string& file, TokenId first, std::vector<std::string>& names) {
  const std::string where = "added_tokens_decoder[" + json::quoted(member.key) + "]";
  const TokenId last = first + static_cast<TokenId>(ReservedTokens::kCount) - 1;
  TokenId id = -1;
  const char* const key_end = member.key.data() + member.key.size();
  const auto [end, status] = std::from_chars(member.key.data(), key_end, id);
  if (status != std::errc() || end != key_end || id < first || id > last) {
    Error error = in_config(file, where, "not the id of a reserved token");
    error.expected = std::to_string(first) + " to " + std::to_string(last) + ", the ids after the ranks of tiktoken.model";
    return error;
  }
  const json::Value* content = member.value.find("content");
  if (content == nullptr || !content->is_string()) return in_config(file, where, "no string \"content\"");
  if (content->text.empty() || content->text.size() > ReservedTokens::kLongestName) {
    Error error = in_config(file, where, "\"content\" of " + std::to_string(content->text.size()) + " bytes");
    error.expected = "1 to " + std::to_string(ReservedTokens::kLongestName);
    return error;
  }
  std::string& name = names[static_cast<std::size_t>(id - first)];
  if (!name.empty()) return in_config(file, where, "the id occurs twice");
  name = content->text;
  return {};
}

}  // namespace

Result<ReservedTokens> ReservedTokens::parse(std::string_view config, const std::string& file, TokenId first) {
  Result<json::Value> document = json::parse(config);
  if (!document) {
    Error error = document.error();
    error.file = file;
    return error;
  }
  const json::Value* added = document->find("added_tokens_decoder");
  if (added == nullptr || !added->is_object()) return in_config(file, "added_tokens_decoder", "missing or not an object");
  ReservedTokens made;
  made.first_ = first;
  made.names_.resize(kCount);
  for (const json::Member& member : added->members) {
    if (const Result<void> taken = take_name(member, file, first, made.names_); !taken) return taken.error();
  }
  for (std::size_t i = 0; i < kCount; ++i) {
    if (made.names_[i].empty()) made.names_[i] = "<|reserved_token_" + std::to_string(static_cast<std::size_t>(first) + i) + "|>";
  }
  if (const Result<void> indexed = made.index(file); !indexed) return indexed.error();
  return made;
}

Result<void> ReservedTokens::index(const std::string& file) {
  for (std::size_t i = 0; i < kCount; ++i) {
    const std::string& name = names_[i];
    const TokenId id = first_ + static_cast<TokenId>(i);
    const auto [entry, fresh] = ids_.emplace(name, id);
    if (!fresh) {
      return in_config(file, "added_tokens_decoder",
                       json::quoted(name) + " names both " + std::to_string(entry->second) + " and " + std::to_string(id));
    }
    lengths_.push_back(name.size());
    begins_[static_cast<unsigned char>(name[0])] = true;
  }
  std::sort(lengths_.begin(), lengths_.end(), std::greater<>());
  lengths_.erase(std::unique(lengths_.begin(), lengths_.end()), lengths_.end());
  return {};
}

std::optional<TokenId> ReservedTokens::find(std::string_view name) const {
  const auto entry = ids_.find(name);
  return entry == ids_.end() ? std::nullopt : std::optional<TokenId>(entry->second);
}

std::optional<ReservedTokens::Match> ReservedTokens::next(std::string_view text, std::size_t from) const {
  for (std::size_t begin = from; begin < text.size(); ++begin) {
    if (!begins_[static_cast<unsigned char>(text[begin])]) continue;
    for (const std::size_t length : lengths_) {
      if (length > text.size() - begin) continue;
      if (const std::optional<TokenId> id = find(text.substr(begin, length))) return Match{begin, begin + length, *id};
    }
  }
  return std::nullopt;
}

Result<ControlTokens> find_control_tokens(const ReservedTokens& reserved, const std::string& file) {
  ControlTokens control{};
  const std::pair<std::string_view, TokenId*> wanted[] = {{"<|end_of_msg|>", &control.end_of_message},
                                                          {"<|open|>", &control.open},
                                                          {"<|close|>", &control.close},
                                                          {"<|sep|>", &control.separator},
                                                          {"[EOS]", &control.end_of_sequence}};
  for (const auto& [name, id] : wanted) {
    const std::optional<TokenId> found = reserved.find(name);
    if (!found) {
      return in_config(
          file, "added_tokens_decoder",
          "no token named " + std::string(name) + ", which the chat format needs; another model's tokenizer_config.json?");
    }
    *id = *found;
  }
  return control;
}

Result<std::string> read_text_file(const std::filesystem::path& path, std::size_t limit) {
  const auto at_path = [&](ErrorCode code, std::string message) {
    Error error = fail(code, std::move(message));
    error.file = path.string();
    return error;
  };
  std::error_code status;
  if (!std::filesystem::is_regular_file(path, status)) {
    const bool exists = std::filesystem::exists(path, status);
    return at_path(ErrorCode::not_found, exists ? "not a regular file" : "no such file");
  }
  errno = 0;
  std::ifstream stream(path, std::ios::binary);
  if (!stream) return at_path(ErrorCode::io, std::string("cannot be opened: ") + std::strerror(errno));
  std::string text;
  std::string chunk(1 << 16, '\0');
  while (stream.read(chunk.data(), static_cast<std::streamsize>(chunk.size())), stream.gcount() > 0) {
    text.append(chunk, 0, static_cast<std::size_t>(stream.gcount()));
    if (text.size() > limit) return at_path(ErrorCode::invalid_argument, "larger than " + std::to_string(limit) + " bytes");
  }
  if (stream.bad()) return at_path(ErrorCode::io, std::string("cannot be read: ") + std::strerror(errno));
  return text;
}

}  // namespace k3::text
