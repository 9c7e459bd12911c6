// K3's byte-level BPE, straight from tiktoken.model and tokenizer_config.json.
#pragma once

#include "model/error.hpp"

#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace k3::text {

using TokenId = std::int32_t;

// What a prompt is made of: each segment is tokenised alone, so a token never straddles two of them.
struct Segment {
  std::string text;
  bool allow_special = false;  // true: reserved strings become their control token; false: they are ordinary text
  friend bool operator==(const Segment&, const Segment&) = default;
};

// The control tokens the chat format is built from, looked up by name: their numbers differ between vocabularies.
struct ControlTokens {
  TokenId end_of_message, open, close, separator, end_of_sequence;  // <|end_of_msg|> <|open|> <|close|> <|sep|> [EOS]
};

class Tokenizer {
 public:
  // Reads DIR/tiktoken.model and DIR/tokenizer_config.json. Errors name the file and the line or key.
  static Result<Tokenizer> load(const std::filesystem::path& directory);

  Tokenizer(Tokenizer&&) noexcept;
  Tokenizer& operator=(Tokenizer&&) noexcept;
  ~Tokenizer();

  // Ids of `text`; invalid UTF-8 is an error with its byte offset. Adds no BOS and no EOS.
  Result<std::vector<TokenId>> encode(std::string_view text, bool allow_special) const;
  // Each segment alone, concatenated.
  Result<std::vector<TokenId>> encode(std::span<const Segment> segments) const;

  // The raw bytes of one id (a reserved id gives its name); an id outside the vocabulary is empty.
  std::string_view bytes(TokenId id) const;
  // Bytes concatenated, then UTF-8 with U+FFFD for what is not valid.
  std::string decode(std::span<const TokenId> ids) const;

  bool is_reserved(TokenId id) const;
  std::optional<TokenId> reserved(std::string_view name) const;
  const ControlTokens& control() const;
  TokenId vocabulary_size() const;  // ranks plus the 256 reserved ids

 private:
  struct Data;
  explicit Tokenizer(std::unique_ptr<Data> data);
  std::unique_ptr<Data> data_;
};

// Turns a stream of token bytes into UTF-8 text in whole code points: an incomplete tail is held back until it completes
// or is proven invalid (then one U+FFFD per maximal invalid prefix, as Python's 'replace' and WHATWG do).
class Utf8Stream {
 public:
  std::string push(std::string_view bytes);
  std::string finish();  // what is still held back, as U+FFFD; resets

 private:
  std::string pending_;
};

}  // namespace k3::text
