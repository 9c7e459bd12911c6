// The small model's tokenizer and transcripts, and a reader that puts a stream of deltas together again.
#pragma once

#include <fstream>
#include <map>
#include <sstream>

#include "model/text/channel_parser.hpp"
#include "model/text/json.hpp"
#include "tests/catch.hpp"

namespace k3::channel_test {

using text::ChannelParser;
using text::ParsedMessage;
using text::TokenId;
using Ids = std::vector<TokenId>;

inline const text::Tokenizer& tokenizer() {
  static const text::Tokenizer loaded = text::Tokenizer::load(K3_SOURCE_DIR "/tools/mini/model").value();
  return loaded;
}

struct Transcript {
  json::Value request;
  json::Value message;
  Ids prompt, output;
};

inline Ids ids_of(const json::Value& list) {
  Ids ids;
  for (const json::Value& id : list.items) ids.push_back(static_cast<TokenId>(id.as_int().value()));
  return ids;
}

inline const std::vector<Transcript>& transcripts() {
  static const std::vector<Transcript> loaded = [] {
    std::vector<Transcript> result;
    std::ifstream file(K3_TEST_DATA "/mini_transcripts.jsonl");
    for (std::string line; std::getline(file, line);) {
      const json::Value value = json::parse(line).value();
      result.push_back({*value.find("request"), *value.find("message"), ids_of(*value.find("prompt_ids")),
                        ids_of(*value.find("generated_ids"))});
    }
    return result;
  }();
  return loaded;
}

struct StreamedCall {
  std::string id, name, arguments;
  bool ended = false;
};

struct Outcome {
  ParsedMessage message;
  std::string reasoning, content;  // of the deltas
  std::map<std::size_t, StreamedCall> calls;
  bool ended = false;
};

inline void collect(const std::vector<text::Delta>& deltas, Outcome& out) {
  for (const text::Delta& delta : deltas) {
    if (const auto* reasoning = std::get_if<text::ReasoningDelta>(&delta)) {
      CHECK(!reasoning->text.empty());
      out.reasoning += reasoning->text;
    } else if (const auto* content = std::get_if<text::ContentDelta>(&delta)) {
      CHECK(!content->text.empty());
      out.content += content->text;
    } else if (const auto* begin = std::get_if<text::ToolCallBegin>(&delta)) {
      CHECK(begin->index == out.calls.size());
      out.calls[begin->index] = {begin->id, begin->name, {}, false};
    } else if (const auto* arguments = std::get_if<text::ToolCallArguments>(&delta)) {
      CHECK(!out.calls.at(arguments->index).ended);
      out.calls.at(arguments->index).arguments += arguments->json;
    } else {
      out.calls.at(std::get<text::ToolCallEnd>(delta).index).ended = true;
    }
  }
}

// Pushes id by id and checks what must hold for every output, broken or not.
inline Outcome run(const Ids& ids, bool thinking, std::size_t first_call = 0) {
  ChannelParser parser(tokenizer(), thinking, first_call);
  Outcome out;
  for (const TokenId id : ids) collect(parser.push(id), out);
  collect(parser.finish(), out);
  out.ended = parser.ended();
  out.message = parser.message();
  CHECK(out.reasoning == out.message.reasoning);
  CHECK(out.content == out.message.content);
  auto call = out.message.tool_calls.begin();
  for (const auto& [index, streamed] : out.calls) {
    if (!streamed.ended) continue;
    REQUIRE(call != out.message.tool_calls.end());
    CHECK(call->id == streamed.id);
    CHECK(call->name == streamed.name);
    CHECK(call->arguments == streamed.arguments);
    const auto parsed = json::parse(call->arguments);
    CHECK((parsed.has_value() && parsed->is_object()));
    ++call;
  }
  CHECK(call == out.message.tool_calls.end());
  return out;
}

// Ids of `text` with its control tokens recognised.
inline Ids encode(std::string_view text) { return tokenizer().encode(text, true).value(); }

inline Outcome run(std::string_view text, bool thinking) { return run(encode(text), thinking); }

}  // namespace k3::channel_test
