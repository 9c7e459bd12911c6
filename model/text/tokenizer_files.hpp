// The two files of a tokenizer, as text.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "model/error.hpp"
#include "model/text/tokenizer.hpp"

namespace k3::text {

// The 256 ids after the ranks. A name that occurs in ordinary text becomes its id only where the caller allows it.
class ReservedTokens {
 public:
  static constexpr std::size_t kCount = 256;
  static constexpr std::size_t kLongestName = 256;

  // Moving keeps the views of the index; copying would not.
  ReservedTokens(const ReservedTokens&) = delete;
  ReservedTokens& operator=(const ReservedTokens&) = delete;
  ReservedTokens(ReservedTokens&&) = default;
  ReservedTokens& operator=(ReservedTokens&&) = default;

  // `added_tokens_decoder` of tokenizer_config.json; an id it leaves out is named <|reserved_token_ID|>. `file` is only named in
  // errors.
  static Result<ReservedTokens> parse(std::string_view config, const std::string& file, TokenId first);

  TokenId first() const { return first_; }
  const std::vector<std::string>& names() const { return names_; }
  std::optional<TokenId> find(std::string_view name) const;

  struct Match {
    std::size_t begin, end;
    TokenId id;
  };
  // The leftmost name in `text` at or after `from`; of several that begin there, the longest.
  std::optional<Match> next(std::string_view text, std::size_t from) const;

 private:
  ReservedTokens() = default;
  Result<void> index(const std::string& file);

  TokenId first_ = 0;
  std::vector<std::string> names_;
  std::unordered_map<std::string_view, TokenId> ids_;  // views into names_, whose strings never move again
  std::vector<std::size_t> lengths_;                   // that occur, longest first
  std::vector<bool> begins_ = std::vector<bool>(256);  // bytes that begin a name
};

Result<ControlTokens> find_control_tokens(const ReservedTokens& reserved, const std::string& file);

// A whole file of at most `limit` bytes.
Result<std::string> read_text_file(const std::filesystem::path& path, std::size_t limit);

}  // namespace k3::text
