// Any bytes: read as a rank file, as a tokenizer_config.json, and encoded as text with a small fixed vocabulary.
#include "model/text/tokenizer.hpp"

#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "model/text/bpe.hpp"
#include "model/text/split.hpp"
#include "model/text/tokenizer_files.hpp"
#include "model/text/utf8.hpp"

using namespace k3::text;

namespace {

void require(bool condition) {
  if (!condition) std::abort();
}

const Vocabulary& fixed_vocabulary() {
  static const Vocabulary vocabulary = [] {
    std::vector<std::string> words;
    for (int byte = 0; byte < 256; ++byte) words.emplace_back(1, static_cast<char>(byte));
    for (const char* word :
         {"th", "in", " t", "the", " the", "ing", "aa", "aaa", "aaaa", "  ", "    ", "\n\n", "'s", "\xe4\xb8", "12", "123"}) {
      words.emplace_back(word);
    }
    std::vector<Vocabulary::Entry> entries;
    for (std::uint32_t i = 0; i < words.size(); ++i) entries.push_back({i, i + 1, words[i]});
    return Vocabulary::build(std::move(entries)).value();
  }();
  return vocabulary;
}

void check_round_trip(const Vocabulary& vocabulary, std::string_view text) {
  PieceEncoder encoder(vocabulary);
  std::vector<TokenId> ids;
  std::size_t covered = 0;
  for (const std::string_view slice : guarded_slices(text)) {
    covered += slice.size();
    encode_ordinary(slice, encoder, ids);
  }
  require(covered == text.size());
  std::string bytes;
  for (const TokenId id : ids) bytes += vocabulary.bytes(static_cast<std::uint32_t>(id));
  require(bytes == text);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  Utf8Stream stream;
  std::string text = stream.push(input);
  text += stream.finish();
  require(!utf8::find_invalid(text));
  check_round_trip(fixed_vocabulary(), text);
  if (const auto vocabulary = parse_vocabulary(input, "fuzz")) check_round_trip(*vocabulary, text);
  if (const auto reserved = ReservedTokens::parse(input, "fuzz", 256)) {
    for (const std::string& name : reserved->names()) require(reserved->find(name).has_value());
    for (std::size_t at = 0; const auto match = reserved->next(text, at); at = match->end)
      require(match->begin >= at && match->end > match->begin);
  }
  return 0;
}
