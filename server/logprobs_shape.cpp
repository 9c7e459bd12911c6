#include "server/logprobs_shape.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "model/text/utf8.hpp"

namespace k3::server {
namespace {

using json::Writer;

// Bytes that are no text by themselves are spelled out as OpenAI does it: two different pieces of code points must not look the
// same.
std::string token_text(std::string_view bytes) {
  if (!text::utf8::find_invalid(bytes)) return std::string(bytes);
  std::string spelled = "bytes:";
  for (const char byte : bytes) spelled += fmt::format("\\x{:02x}", static_cast<unsigned char>(byte));
  return spelled;
}

void write_bytes(Writer& writer, std::string_view bytes) {
  writer.begin_array();
  for (const char byte : bytes) writer.integer(static_cast<unsigned char>(byte));
  writer.end_array();
}

// JSON has no infinity; this is the number OpenAI shows for what cannot be. Nor should a certainty be -0.
double finite(float logprob) { return std::max(static_cast<double>(logprob), -9999.0) + 0.0; }

void write_top(Writer& writer, const text::Tokenizer& tokenizer, const TokenLogprobs& logprobs) {
  writer.key("top_logprobs").begin_array();
  for (const auto& [id, logprob] : logprobs.top) {
    writer.begin_object().key("token").string(token_text(tokenizer.bytes(id))).key("logprob").number(finite(logprob));
    writer.key("bytes");
    if (tokenizer.is_reserved(id)) {
      writer.null();  // a marker has a name, but is no text
    } else {
      write_bytes(writer, tokenizer.bytes(id));
    }
    writer.end_object();
  }
  writer.end_array();
}

std::size_t characters(std::string_view bytes) {
  return static_cast<std::size_t>(
      std::count_if(bytes.begin(), bytes.end(), [](char byte) { return (static_cast<unsigned char>(byte) & 0xc0) != 0x80; }));
}

}  // namespace

void write_chat_logprobs(Writer& writer, const text::Tokenizer& tokenizer, Spoken tokens) {
  writer.begin_object().key("content").begin_array();
  for (const auto& token : tokens) {
    writer.begin_object().key("token").string(token_text(token.bytes)).key("logprob").number(finite(token.logprobs->own));
    writer.key("bytes");
    write_bytes(writer, token.bytes);
    write_top(writer, tokenizer, *token.logprobs);
    writer.end_object();
  }
  writer.end_array().end_object();
}

void write_text_logprobs(Writer& writer, const text::Tokenizer& tokenizer, Spoken tokens, std::size_t& offset) {
  writer.begin_object().key("tokens").begin_array();
  for (const auto& token : tokens) writer.string(token_text(token.bytes));
  writer.end_array().key("token_logprobs").begin_array();
  for (const auto& token : tokens) writer.number(finite(token.logprobs->own));
  writer.end_array().key("top_logprobs").begin_array();
  for (const auto& token : tokens) {
    writer.begin_object();
    for (const auto& [id, logprob] : token.logprobs->top) writer.key(token_text(tokenizer.bytes(id))).number(finite(logprob));
    writer.end_object();
  }
  writer.end_array().key("text_offset").begin_array();
  for (const auto& token : tokens) {
    writer.integer(static_cast<std::int64_t>(offset));
    offset += characters(token.bytes);
  }
  writer.end_array().key("bytes").begin_array();
  for (const auto& token : tokens) write_bytes(writer, token.bytes);
  writer.end_array().end_object();
}

}  // namespace k3::server
