#include "model/text/tokenizer.hpp"

#include <cassert>

#include "model/text/bpe.hpp"
#include "model/text/split.hpp"
#include "model/text/tokenizer_files.hpp"
#include "model/text/utf8.hpp"

namespace k3::text {

namespace {

constexpr std::size_t kConfigBytes = 16 << 20;  // K3's is some 50 kB

}  // namespace

struct Tokenizer::Data {
  Vocabulary vocabulary;
  ReservedTokens reserved;
  ControlTokens control;
};

Tokenizer::Tokenizer(std::unique_ptr<Data> data) : data_(std::move(data)) { assert(data_); }
Tokenizer::Tokenizer(Tokenizer&&) noexcept = default;
Tokenizer& Tokenizer::operator=(Tokenizer&&) noexcept = default;
Tokenizer::~Tokenizer() = default;

Result<Tokenizer> Tokenizer::load(const std::filesystem::path& directory) {
  const std::filesystem::path ranks = directory / "tiktoken.model";
  const Result<std::string> ranks_text = read_text_file(ranks, Vocabulary::Limits::file_bytes);
  if (!ranks_text) return ranks_text.error();
  Result<Vocabulary> vocabulary = parse_vocabulary(*ranks_text, ranks.string());
  if (!vocabulary) return vocabulary.error();

  const std::filesystem::path config = directory / "tokenizer_config.json";
  const Result<std::string> config_text = read_text_file(config, kConfigBytes);
  if (!config_text) return config_text.error();
  Result<ReservedTokens> reserved = ReservedTokens::parse(*config_text, config.string(), static_cast<TokenId>(vocabulary->size()));
  if (!reserved) return reserved.error();
  const Result<ControlTokens> control = find_control_tokens(*reserved, config.string());
  if (!control) return control.error();
  return Tokenizer(std::unique_ptr<Data>(new Data{std::move(*vocabulary), std::move(*reserved), *control}));
}

Result<std::vector<TokenId>> Tokenizer::encode(std::string_view text, bool allow_special) const {
  if (const auto invalid = utf8::find_invalid(text)) {
    Error error = fail(ErrorCode::invalid_argument, "the text is not valid UTF-8 at byte " + std::to_string(*invalid));
    error.offset = static_cast<std::int64_t>(*invalid);
    return error;
  }
  std::vector<TokenId> ids;
  PieceEncoder encoder(data_->vocabulary);
  for (const std::string_view slice : guarded_slices(text)) {
    std::size_t begin = 0;
    while (allow_special) {
      const auto match = data_->reserved.next(slice, begin);
      if (!match) break;
      encode_ordinary(slice.substr(begin, match->begin - begin), encoder, ids);
      ids.push_back(match->id);
      begin = match->end;
    }
    encode_ordinary(slice.substr(begin), encoder, ids);
  }
  return ids;
}

Result<std::vector<TokenId>> Tokenizer::encode(std::span<const Segment> segments) const {
  std::vector<TokenId> ids;
  for (std::size_t i = 0; i < segments.size(); ++i) {
    const Result<std::vector<TokenId>> part = encode(segments[i].text, segments[i].allow_special);
    if (!part) {
      Error error = part.error();
      error.message = "segment " + std::to_string(i) + ": " + error.message;
      return error;
    }
    ids.insert(ids.end(), part->begin(), part->end());
  }
  return ids;
}

std::string_view Tokenizer::bytes(TokenId id) const {
  if (id < 0) return {};
  if (id < data_->reserved.first()) return data_->vocabulary.bytes(static_cast<std::uint32_t>(id));
  return is_reserved(id) ? std::string_view(data_->reserved.names()[static_cast<std::size_t>(id - data_->reserved.first())])
                         : std::string_view();
}

std::string Tokenizer::decode(std::span<const TokenId> ids) const {
  Utf8Stream stream;
  std::string text;
  for (const TokenId id : ids) text += stream.push(bytes(id));
  text += stream.finish();
  return text;
}

bool Tokenizer::is_reserved(TokenId id) const { return id >= data_->reserved.first() && id < vocabulary_size(); }

std::optional<TokenId> Tokenizer::reserved(std::string_view name) const { return data_->reserved.find(name); }

const ControlTokens& Tokenizer::control() const { return data_->control; }

TokenId Tokenizer::vocabulary_size() const { return data_->reserved.first() + static_cast<TokenId>(ReservedTokens::kCount); }

}  // namespace k3::text
