// Bytes as output ids of a small vocabulary: whatever comes, the stream adds up to the message, and arguments are JSON objects.
#include <unistd.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>

#include "model/text/channel_parser.hpp"
#include "model/text/json.hpp"

using namespace k3;

namespace {

constexpr std::array<std::string_view, 16> words{"think",    "response",     "message",    "tools",    "call",     "argument",
                                                 "json",     " tool=\"f\"",  " key=\"a\"", " type=\"", "string\"", "number\"",
                                                 "object\"", " index=\"1\"", "zebra",      "{\"a\":"};
constexpr std::array<std::string_view, 6> controls{"<|end_of_msg|>", "<|open|>", "<|close|>", "<|sep|>", "[EOS]", "[BOS]"};
constexpr int first_control = 256 + static_cast<int>(words.size());

std::string base64(std::string_view bytes) {
  static constexpr char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    std::uint32_t group = 0;
    for (std::size_t j = 0; j < 3; ++j) group = group << 8 | (i + j < bytes.size() ? static_cast<unsigned char>(bytes[i + j]) : 0U);
    for (std::size_t j = 0; j < 4; ++j) out += i + j > bytes.size() ? '=' : digits[group >> (18 - 6 * j) & 63];
  }
  return out;
}

// All bytes, the tags and a few pieces of headers, and the control tokens.
text::Tokenizer make_tokenizer() {
  const auto directory = std::filesystem::temp_directory_path() / ("k3-fuzz-channel-" + std::to_string(::getpid()));
  std::filesystem::create_directories(directory);
  std::ofstream ranks(directory / "tiktoken.model");
  for (int byte = 0; byte < 256; ++byte) ranks << base64(std::string(1, static_cast<char>(byte))) << ' ' << byte << '\n';
  for (std::size_t i = 0; i < words.size(); ++i) ranks << base64(words[i]) << ' ' << 256 + i << '\n';
  ranks.close();
  std::string config;
  json::Writer writer(config);
  writer.begin_object().key("added_tokens_decoder").begin_object();
  for (std::size_t i = 0; i < controls.size(); ++i) {
    writer.key(std::to_string(first_control + static_cast<int>(i))).begin_object().key("content").string(controls[i]).end_object();
  }
  writer.end_object().end_object();
  std::ofstream(directory / "tokenizer_config.json") << config;
  text::Tokenizer tokenizer = text::Tokenizer::load(directory).value();
  std::filesystem::remove_all(directory);
  return tokenizer;
}

// 0xE0.. are words and controls, so that structure is common; the rest are bytes themselves.
text::TokenId id_of(std::uint8_t byte) {
  if (byte >= 0xF0) return first_control + (byte & 15) % static_cast<int>(controls.size());
  if (byte >= 0xE0) return 256 + (byte & 15);
  return byte;
}

struct Streamed {
  std::string reasoning, content;
  std::map<std::size_t, text::ToolCall> calls;
  std::vector<std::size_t> complete;

  void take(const std::vector<text::Delta>& deltas) {
    for (const text::Delta& delta : deltas) {
      if (const auto* part = std::get_if<text::ReasoningDelta>(&delta)) reasoning += part->text;
      if (const auto* part = std::get_if<text::ContentDelta>(&delta)) content += part->text;
      if (const auto* part = std::get_if<text::ToolCallBegin>(&delta)) calls[part->index] = {part->id, part->name, {}};
      if (const auto* part = std::get_if<text::ToolCallArguments>(&delta)) calls.at(part->index).arguments += part->json;
      if (const auto* part = std::get_if<text::ToolCallEnd>(&delta)) complete.push_back(part->index);
    }
  }
};

void must(bool condition) {
  if (!condition) std::abort();
}

bool is_utf8(std::string_view text) { return json::parse(json::quoted(text)).has_value(); }

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const text::Tokenizer tokenizer = make_tokenizer();
  if (size == 0) return 0;
  text::ChannelParser parser(tokenizer, (data[0] & 1) != 0);
  Streamed streamed;
  for (std::size_t i = 1; i < size; ++i) streamed.take(parser.push(id_of(data[i])));
  streamed.take(parser.finish());
  must(parser.finish().empty() && parser.push('x').empty());
  const text::ParsedMessage& message = parser.message();
  must(streamed.reasoning == message.reasoning && streamed.content == message.content);
  must(is_utf8(message.reasoning) && is_utf8(message.content));
  must(streamed.complete.size() == message.tool_calls.size());
  for (std::size_t i = 0; i < message.tool_calls.size(); ++i) {
    const text::ToolCall& call = streamed.calls.at(streamed.complete[i]);
    must(call.id == message.tool_calls[i].id && call.arguments == message.tool_calls[i].arguments && is_utf8(call.name));
    const auto arguments = json::parse(call.arguments);
    must(arguments.has_value() && arguments->is_object());
  }
  return 0;
}
