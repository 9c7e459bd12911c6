// The vocabulary and byte pair encoding by rank.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "model/error.hpp"
#include "model/text/tokenizer.hpp"

namespace k3::text {

// Token bytes by rank and ranks by bytes: all bytes in one arena, found through one flat open-addressed table.
class Vocabulary {
 public:
  static constexpr std::uint32_t kNone = 0xffff'ffff;
  struct Entry {
    std::uint32_t rank;
    std::uint32_t line;  // of the file, for errors
    std::string_view bytes;
  };
  struct Limits {
    static constexpr std::size_t entries = 1 << 20;  // K3 has 163,584
    static constexpr std::size_t token_bytes = 1024;
    static constexpr std::size_t file_bytes = 64 << 20;  // K3's is below 3 MB
  };

  // Ranks must be 0..n-1, each once; no bytes twice; every single byte must have a rank, so that any text can be encoded.
  // Entries may come in any order. Errors name lines; the caller adds the file.
  static Result<Vocabulary> build(std::vector<Entry> entries);

  std::uint32_t find(std::string_view bytes) const;  // rank or kNone
  std::string_view bytes(std::uint32_t rank) const {
    return std::string_view(arena_).substr(offsets_[rank], offsets_[rank + 1] - offsets_[rank]);
  }
  std::uint32_t size() const { return static_cast<std::uint32_t>(offsets_.size() - 1); }
  std::size_t longest() const { return longest_; }

 private:
  Vocabulary() = default;
  struct Slot {
    std::uint32_t rank = kNone;
    std::uint32_t fingerprint = 0;  // spares the comparison of bytes for nearly all of the wrong ones
  };
  Slot& slot_for(std::string_view bytes);

  std::string arena_;
  std::vector<std::uint32_t> offsets_;  // size() + 1
  std::vector<Slot> slots_;             // a power of two, at most half full
  std::size_t longest_ = 0;
};

// "BASE64 RANK" a line. `file` is only named in errors.
Result<Vocabulary> parse_vocabulary(std::string_view text, const std::string& file);

// Encodes pieces; holds the scratch memory of one caller.
class PieceEncoder {
 public:
  explicit PieceEncoder(const Vocabulary& vocabulary) : vocabulary_(vocabulary) {}
  void encode(std::string_view piece, std::vector<TokenId>& out);

 private:
  struct Part {
    std::uint32_t begin;
    std::uint32_t rank;            // of this part joined with the next, or kNone
    std::uint32_t previous, next;  // only the long way links its parts
  };
  std::uint32_t joined_rank(std::string_view piece, std::size_t begin, std::size_t end) const;
  void start(std::string_view piece);
  void merge_short(std::string_view piece);
  void merge_long(std::string_view piece);

  const Vocabulary& vocabulary_;
  std::vector<Part> parts_;  // the last one is the end of the piece
  std::vector<std::uint64_t> heap_;
};

// Ids of valid UTF-8 in which no reserved string is recognised.
void encode_ordinary(std::string_view text, PieceEncoder& encoder, std::vector<TokenId>& out);

}  // namespace k3::text
